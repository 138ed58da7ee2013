"""ttft-cost-scorer."""

from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar, Final

import msgspec

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.producers.flights import EndpointFlights, Flight
from epp.scheduling.producers.latency import LearnedLatency, Work
from epp.scheduling.producers.matched import Matched, held_tokens
from epp.scheduling.registry import param

__all__ = ["Learned", "TtftCostParameters", "TtftCostScorer"]

_FLOOR_S: Final = 0.020  # differences below this decide nothing
_FIRST_ANSWER_TOKENS: Final = 256.0
_FIRST_PREFILL_S: Final = 0.2
_WEIGHT: Final = 0.1


@dataclass(frozen=True, slots=True)
class TtftCostParameters:
    """Parameters of ttft-cost-scorer."""

    decode_harm: float = param(
        0.25,
        key="decodeHarm",
        doc="What a second of prefill costs each answer under way on the endpoint, in seconds.",
        minimum=0,
    )
    memory_price: float = param(
        1.0,
        key="memoryPrice",
        doc="Weight of the KV cache that the request would take from later ones, where it is scarce.",
        minimum=0,
    )
    max_wait_s: float = param(
        30.0,
        key="maxWait",
        doc="Where a request has waited longer than this for its first token, the wait is added to the cost.",
        above=0,
        duration=True,
    )


@dataclass(slots=True)
class Learned:
    """What answers of one model have taught."""

    latency: LearnedLatency = field(default_factory=LearnedLatency)
    output_tokens: float = _FIRST_ANSWER_TOKENS
    prefill_s: float = _FIRST_PREFILL_S


class _Outlook(msgspec.Struct, frozen=True):
    """What is predicted for a request at an endpoint."""

    work: Work
    prefill_s: float
    cost_s: float
    clear: bool


class TtftCostScorer:
    """Prefers the endpoint where the request's first token is predicted to come first, and does least harm.

    Formula: cost = max(queue, memory) + others + prefill + harm + price + stuck, in seconds;
    score = (least + 20 ms) / (cost + 20 ms).
    queue: predicted prefill of this router's requests there that have no first token yet; memory: until
    enough KV blocks are free, by the expected ends of answers under way and of those that are let in before
    this one; others: prefill of requests that wait there and that another router has sent, as scraped, at
    the mean of this one's; prefill: of what no tier holds, and
    the fetch of what only the CPU tier does; harm: decodeHarm * prefill * answers under way; price:
    memoryPrice * share of the KV cache that the request takes * share that is taken * how long an answer
    takes. Times are learned from first tokens, by model.
    Missing data: an endpoint that does not tell its KV capacity has memory 0.
    Ties: equal costs give equal scores. stuck: how long the first that waits there has, once that is above
    maxWait.
    """

    type: ClassVar[str] = "ttft-cost-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(
        self,
        name: str,
        cpu_producers: frozenset[str] = frozenset(),
        *,
        decode_harm: float = 0.25,
        memory_price: float = 1.0,
        max_wait_s: float = 30.0,
    ) -> None:
        self.name = name
        self._cpu_producers = cpu_producers
        self._harm = decode_harm
        self._memory_price = memory_price
        self._max_wait_s = max_wait_s
        self._endpoints: dict[int, EndpointFlights] = {}
        self._numbers = count()
        # By id of the request, which is kept so that no other takes its id.
        self._flying: dict[int, tuple[object, int, Flight]] = {}
        self._learned: dict[str, Learned] = {}

    @classmethod
    def build(cls, name: str, parameters: TtftCostParameters, context: BuildContext) -> "TtftCostScorer":
        """Factory for the registry."""
        return cls(
            name,
            context.cpu_producers,
            decode_harm=parameters.decode_harm,
            memory_price=parameters.memory_price,
            max_wait_s=parameters.max_wait_s,
        )

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        costs = self.costs(cycle)
        least = min(costs, default=0.0) + _FLOOR_S
        return [least / (cost + _FLOOR_S) for cost in costs]

    def costs(self, cycle: Cycle) -> list[float]:
        """Seconds, a candidate each."""
        matched = held_tokens(cycle, self._cpu_producers)
        learned = self.learned(cycle.model)
        gpu, cpu, endpoints = matched.gpu_tokens, matched.cpu_tokens, self._endpoints
        costs: list[float] = []
        idle: dict[tuple[float, float], float] = {}  # where nothing is under way, by what is held
        for endpoint in cycle.candidates:
            flights = endpoints.get(endpoint.slot)
            if flights is not None and flights.flights:
                costs.append(self._outlook(cycle, endpoint, matched, learned).cost_s)
                continue
            held = gpu.get(endpoint.slot, 0.0), cpu.get(endpoint.slot, 0.0)
            cost = idle.get(held)
            if cost is None:
                cost = idle[held] = learned.latency.prefill_s(_work(cycle, *held))
            costs.append(cost + _others_s(endpoint, flights, cycle.now, learned))
        return costs

    def _outlook(self, cycle: Cycle, endpoint: Endpoint, matched: Matched, learned: Learned) -> "_Outlook":
        flights = self._endpoints.get(endpoint.slot)
        others_s = _others_s(endpoint, flights, cycle.now, learned)
        hit, cpu_hit = matched.gpu(endpoint.slot), matched.cpu(endpoint.slot)
        capacity = endpoint.metrics.gpu_capacity_tokens if endpoint.metrics is not None else None
        if flights is None or not flights.flights:
            work = _work(cycle, hit, cpu_hit)
            prefill_s = learned.latency.prefill_s(work)
            return _Outlook(work, prefill_s, prefill_s + others_s, not others_s)
        output_tokens = _output_tokens(cycle, learned)
        shared = flights.shared_blocks(cycle.chain) * cycle.chain_block_tokens
        memory_s = price_s = 0.0
        if capacity is not None:
            held = flights.held_tokens
            needed = cycle.prompt_tokens + output_tokens - shared
            memory_s = flights.wait_s(needed + shared, shared, capacity, cycle.now, output_tokens)
            price_s = needed / capacity * held / capacity * output_tokens * flights.itl_s
            # What nobody uses there is evicted by what those that are there still need.
            hit = max(shared, min(hit, shared + capacity - held))
        work = _work(cycle, hit, cpu_hit)
        prefill_s = learned.latency.prefill_s(work)
        wait_s = max(flights.prefill_s, memory_s) + others_s + self._too_long_s(flights, cycle.now)
        cost_s = wait_s + prefill_s * (1 + self._harm * flights.decoding) + self._memory_price * price_s
        clear = flights.pending == 0 and not memory_s and not others_s
        return _Outlook(work, prefill_s, cost_s, clear)

    def _too_long_s(self, flights: EndpointFlights, now: float) -> float:
        """How long somebody has waited there, if that is too long."""
        waited_s = flights.oldest_wait_s(now)
        return waited_s if waited_s > self._max_wait_s else 0.0

    def on_picked(self, cycle: Cycle, endpoint: Endpoint) -> None:
        """The request goes to `endpoint`."""
        self.on_ended(cycle, cycle.now, None)
        learned = self.learned(cycle.model)
        matched = held_tokens(cycle, self._cpu_producers)
        outlook = self._outlook(cycle, endpoint, matched, learned)
        flights = self._endpoints.setdefault(endpoint.slot, EndpointFlights())
        flight = Flight(
            slot=endpoint.slot,
            sent_s=cycle.now,
            work=outlook.work,
            prefill_s=outlook.prefill_s,
            clear=outlook.clear and cycle.request.stream,
            tokens=cycle.prompt_tokens + _output_tokens(cycle, learned),
            chain=cycle.chain,
            overlaps=flights.overlaps(cycle.chain, cycle.chain_block_tokens),
        )
        learned.prefill_s += _WEIGHT * (outlook.prefill_s - learned.prefill_s)
        number = next(self._numbers)
        self._flying[id(cycle.request)] = (cycle.request, number, flight)
        flights.add(number, flight)

    def on_first_token(self, cycle: Cycle, now: float) -> None:
        """Its prompt is computed: learn how long that took, if nothing was in its way."""
        known = self._flying.get(id(cycle.request))
        if known is not None:
            _, _, flight = known
            self._endpoints[flight.slot].first_token(flight, now)
            if flight.clear:
                self.learned(cycle.model).latency.learn(flight.work, now - flight.sent_s)

    def on_ended(self, cycle: Cycle, now: float, output_tokens: int | None) -> None:
        """The endpoint is done with it: learn lengths and the time between tokens."""
        known = self._flying.pop(id(cycle.request), None)
        if known is None:
            return
        _, number, flight = known
        flights = self._endpoints[flight.slot]
        if output_tokens:
            flights.learn_itl(flight, now, output_tokens)
            learned = self.learned(cycle.model)
            learned.output_tokens += _WEIGHT * (output_tokens - learned.output_tokens)
        flights.remove(number, now)

    def learned(self, model: str) -> Learned:
        """What the answers of a model have taught."""
        learned = self._learned.get(model)
        if learned is None:
            learned = self._learned[model] = Learned()
        return learned


def _others_s(endpoint: Endpoint, flights: EndpointFlights | None, now: float, learned: Learned) -> float:
    """Prefill of requests that wait there and that this router has not sent, by what a scrape has shown."""
    metrics = endpoint.metrics
    if metrics is None or not metrics.waiting or not endpoint.fresh:
        return 0.0
    own = 0 if flights is None else flights.shown(now)
    others = min(metrics.waiting, metrics.waiting + (metrics.running or 0.0) - own)
    return max(0.0, others) * learned.prefill_s


def _output_tokens(cycle: Cycle, learned: Learned) -> float:
    """Expected length of the answer."""
    limit = cycle.request.max_output_tokens
    return learned.output_tokens if limit is None else min(learned.output_tokens, limit)


def _work(cycle: Cycle, gpu: float, cpu: float) -> Work:
    hit = min(max(gpu, cpu), cycle.prompt_tokens - 1.0)
    return Work(miss=cycle.prompt_tokens - hit, hit=hit, load=max(0.0, hit - gpu))
