"""Drives a core with what is on record, and compares what it decides with what was decided.

Four seams part it from the router that was recorded: the times of the calls, the metrics that were scraped,
the seed of the random numbers, and requests that enter below the parser, as block hashes.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from epp.compose import CoreOptions, compose, recompose
from epp.config import EffectiveConfig, load_config
from epp.director.chains import PromptChains
from epp.director.exchange import Exchange
from epp.director.hashed import prepare_hashed
from epp.director.record import RequestRecord
from epp.director.types import Failure, RequestHead
from epp.endpoints.types import EndpointMetrics, EndpointSpec, ModelInfo
from epp.errors import EppError
from epp.recording import events as e
from epp.recording.folding import Unfolder
from epp.recording.recorded import numbers_of
from epp.request.rewrites import Rewrite
from epp.request.types import InferenceRequest
from epp.scheduling.contracts import Decision

__all__ = ["Difference", "Replay", "ReplayError", "recorded_configs"]

_MOST_DIFFERENCES: Final = 20
_MOST_ENDED: Final = 1_000  # requests: a late word about one that has ended may follow
_FIELDS: Final = EndpointMetrics.__struct_fields__
_WHERE: Final = ("endpoint", "error", "following")


class ReplayError(Exception):
    """An event cannot have happened to the core as it stands: the recording is not whole."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that came out otherwise: in what, with the value on record and the one of the replay."""

    request_id: str
    at_s: float
    what: str
    recorded: Any
    replayed: Any


class Replay:
    """One replay; give it every event in order.

    Attributes:
        requests: that came, questions included.
        decisions: that were compared, refusals and repeats included; `different` of them came out otherwise.
        differences: the first of those.
        started, now: times of the first and the last event, None before the first.
        reloads: configurations that were put in effect.
        scores_too: scores are compared, not the endpoint alone.
    """

    def __init__(
        self,
        header: e.Header,
        config: EffectiveConfig | None = None,
        observer: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        """`config` decides in place of those on record; `observer` is told of each request that has ended.

        Of a `config` that scores otherwise only the endpoints are compared.

        Raises:
            ConfigError: what is on record is no configuration to this version.
        """
        self.requests = self.decisions = self.different = self.reloads = 0
        self.differences: list[Difference] = []
        self.started: float | None = None
        self.now: float | None = None
        self.config = config or _loaded(header.config)
        self._fixed = config is not None
        self.scores_too = not self._fixed or self.config.hash == _loaded(header.config).hash
        shadow = _loaded(header.shadow) if header.shadow is not None else None
        observers = (observer,) if observer else ()
        self._core = compose(self.config, _options(header.options), shadow=shadow, observers=observers)
        self._director, self._upkeep = self._core.director, self._core.upkeep
        self._exchanges: OrderedDict[int, Exchange] = OrderedDict()
        self._unfolder = Unfolder()
        self._metrics: dict[str, dict[str, Any]] = {}
        self._calls: Mapping[type, Callable[[Any], None]] = {
            e.Opened: self._opened, e.Prepared: self._prepared, e.Picked: self._picked,
            e.Scheduled: self._scheduled, e.LookedOn: self._looked_on, e.Committed: self._committed,
            e.Served: self._served, e.Failed: self._failed, e.ResponseHead: self._response_head,
            e.Stored: self._stored, e.FirstByte: self._first_byte, e.Ended: self._ended,
            e.Unseen: self._unseen, e.Spent: self._spent, e.Endpoints: self._endpoints,
            e.Metrics: self._scraped, e.ScrapeFailed: self._scrape_failed, e.Models: self._models,
            e.CacheLost: self._cache_lost, e.TokenRatio: self._token_ratio, e.Tick: self._tick,
            e.Configured: self._configured,
        }  # fmt: skip

    def apply(self, event: e.Event) -> None:
        """It happens again.

        Raises:
            ReplayError: it cannot.
        """
        when = getattr(event, "now", None)
        if when is not None:
            self.started = when if self.started is None else self.started
            self.now = when
        try:
            self._calls[type(event)](event)
        except (KeyError, ValueError, TypeError, StopIteration, AssertionError, EppError) as error:
            raise ReplayError(f"{type(event).__name__}: {type(error).__name__} {error}") from error

    # ---------------------------------------------------------------- requests

    def _opened(self, event: e.Opened) -> None:
        self.requests += 1
        head = RequestHead(event.request_id, "POST", "")
        if event.asked:
            exchange = Exchange(head, event.now, self._director.state)
        else:
            exchange = self._director.open(head, event.now)
        exchange.priority = event.priority
        self._exchanges[event.number] = exchange

    def _prepared(self, event: e.Prepared) -> None:
        exchange = self._exchanges[event.number]
        request = InferenceRequest(
            api=event.api,
            model=event.model,
            salt="",
            prompts=(),
            stream=event.stream,
            body_bytes=event.body_bytes,
            max_output_tokens=event.max_output_tokens,
            replay_safe=event.replay_safe,
            stored_response=event.stored_response,
        )
        if event.target:
            exchange.rewrite = Rewrite(event.model, event.target, "")
        chains = self._chains(event)
        # The name was resolved before a long prompt was hashed; what it stands for may be gone since.
        with suppress(EppError):
            state, tokens = exchange.state, event.prompt_tokens
            prepare_hashed(state, exchange, request, chains, tokens, event.text_bytes)
        exchange.chains = chains

    def _chains(self, event: e.Prepared) -> PromptChains | None:
        if event.chains is None:
            return None
        unfold = self._unfolder.unfold
        chains: dict[int, tuple[Sequence[int], ...]] = {
            size: tuple(map(unfold, folded)) for size, folded in event.chains
        }
        return PromptChains(chains, event.token_ids, event.family, event.data_bytes)

    def _picked(self, event: e.Picked) -> None:
        exchange = self._with_headers(event.number, event.headers)
        exchange.subset = None if event.subset is None else frozenset(event.subset)
        endpoint = error = ""
        try:
            endpoint = self._director.pick(exchange, event.now).address
        except EppError as refusal:
            error = refusal.code
        numbers = None if error else numbers_of(_decision(exchange))
        here = e.Picked(event.number, event.now, event.headers, event.subset, endpoint, error, numbers)
        self._compare(exchange, event, here)

    def _scheduled(self, event: e.Scheduled) -> None:
        exchange = self._with_headers(event.number, event.headers)
        error, numbers = "", None
        try:
            numbers = numbers_of(self._director.schedule(exchange, event.now))
        except EppError as refusal:
            error = refusal.code
        here = e.Scheduled(event.number, event.now, event.headers, error, numbers)
        self._compare(exchange, event, here)

    def _with_headers(self, number: int, headers: Mapping[str, str]) -> Exchange:
        exchange = self._exchanges[number]
        exchange.head = msgspec.structs.replace(exchange.head, headers=headers)
        return exchange

    def _looked_on(self, event: e.LookedOn) -> None:
        next(self._exchanges[event.number].order, None)

    def _committed(self, event: e.Committed) -> None:
        exchange = self._exchanges[event.number]
        endpoint = self._director.state.table.pool.by_address[event.endpoint]
        self._director.commit(exchange, _decision(exchange), endpoint)

    def _served(self, event: e.Served) -> None:
        self._director.on_served(self._exchanges[event.number], event.endpoint)

    def _failed(self, event: e.Failed) -> None:
        exchange = self._exchanges[event.number]
        failure = Failure(event.kind, written=event.written)
        target = self._director.next_after_failure(exchange, failure, event.now)
        following = "" if target is None else target.address
        self._compare(exchange, event, msgspec.structs.replace(event, following=following))

    def _response_head(self, event: e.ResponseHead) -> None:
        self._director.on_response_head(self._exchanges[event.number], event.status, event.now)

    def _stored(self, event: e.Stored) -> None:
        self._director.on_stored_response(self._exchanges[event.number], event.response, event.now)

    def _first_byte(self, event: e.FirstByte) -> None:
        self._director.on_first_byte(self._exchanges[event.number], event.now)

    def _ended(self, event: e.Ended) -> None:
        exchange = self._exchanges[event.number]
        self._director.on_end(
            exchange, event.reason, event.now, usage=event.usage, response_bytes=event.response_bytes
        )
        self._forget_old(event.number)

    def _unseen(self, event: e.Unseen) -> None:
        self._director.on_unobserved(self._exchanges[event.number], event.now)
        self._forget_old(event.number)

    def _spent(self, event: e.Spent) -> None:
        self._director.budget.spend(event.count, event.now)

    def _forget_old(self, ended: int) -> None:
        """Keep those under way, and the last that have ended, which move to the end."""
        self._exchanges.move_to_end(ended)
        first = next(iter(self._exchanges))
        if len(self._exchanges) > _MOST_ENDED and self._exchanges[first].ended:
            del self._exchanges[first]

    # ---------------------------------------------------------------- endpoints

    def _endpoints(self, event: e.Endpoints) -> None:
        specs = tuple(EndpointSpec(*msgspec.structs.astuple(spec)) for spec in event.specs)
        addresses = {spec.address for spec in specs}
        self._metrics = {a: values for a, values in self._metrics.items() if a in addresses}
        self._upkeep.sync_endpoints(specs, event.now)

    def _scraped(self, event: e.Metrics) -> None:
        values = self._metrics.setdefault(event.address, {})
        values.update({_FIELDS[place]: value for place, value in event.changed.items()})
        metrics = msgspec.convert(values, EndpointMetrics)
        self._upkeep.on_metrics(event.address, event.incarnation, metrics, event.now)

    def _scrape_failed(self, event: e.ScrapeFailed) -> None:
        told = event.address, event.incarnation
        self._upkeep.on_scrape_failure(*told, refused=event.refused, now=event.now)

    def _models(self, event: e.Models) -> None:
        models = tuple(ModelInfo(*model) for model in event.models)
        self._upkeep.on_models(event.address, event.incarnation, models, event.now)

    def _cache_lost(self, event: e.CacheLost) -> None:
        self._upkeep.on_cache_lost(event.address, gpu_only=event.gpu_only)

    def _token_ratio(self, event: e.TokenRatio) -> None:
        self._upkeep.on_token_ratio(event.model, event.bytes_per_token)

    def _tick(self, event: e.Tick) -> None:
        self._upkeep.tick(event.now)

    def _configured(self, event: e.Configured) -> None:
        self.reloads += 1
        if self._fixed:
            return
        shadow = _loaded(event.shadow) if event.shadow is not None else None
        steps = recompose(self._core, _loaded(event.config), shadow)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                self._core = done.value
                return

    # ---------------------------------------------------------------- comparison

    def _compare(self, exchange: Exchange, recorded: Any, replayed: Any) -> None:
        self.decisions += 1
        if recorded == replayed or not (self.scores_too or _goes_elsewhere(recorded, replayed)):
            return
        self.different += 1
        if len(self.differences) < _MOST_DIFFERENCES:
            since = exchange.arrived - (self.started or 0.0)
            make = partial(Difference, exchange.head.request_id, since)
            self.differences.append(make(*next(_differing(recorded, replayed))))


def _decision(exchange: Exchange) -> Decision:
    if exchange.decision is None:
        raise ValueError("nothing was decided")
    return exchange.decision


def _goes_elsewhere(recorded: Any, replayed: Any) -> bool:
    return any(getattr(recorded, name, "") != getattr(replayed, name, "") for name in _WHERE)


def _differing(recorded: Any, replayed: Any) -> Iterator[tuple[str, Any, Any]]:
    """What differs first, and both values: the endpoint, then candidates, scores and totals."""
    for name in _WHERE:
        one, other = getattr(recorded, name, ""), getattr(replayed, name, "")
        if one != other:
            yield name, one, other
    one, other = recorded.numbers, replayed.numbers
    if one is None or other is None or (one.profile, one.slots) != (other.profile, other.slots):
        yield "candidates", _slots(one), _slots(other)
        return
    was, is_now = _weights(one), _weights(other)
    if was != is_now:
        yield "scorers and weights", was, is_now
    for (scorer, _, before), (_, _, now) in zip(one.columns, other.columns, strict=False):
        if before != now:
            yield f"scores of {scorer}", _doubles(before), _doubles(now)
    yield "totals", _doubles(one.totals), _doubles(other.totals)


def _slots(numbers: e.Numbers | None) -> list[int]:
    return array("I", numbers.slots).tolist() if numbers is not None else []


def _weights(numbers: e.Numbers) -> dict[str, float]:
    return {scorer: weight for scorer, weight, _ in numbers.columns}


def _doubles(packed: bytes) -> list[float]:
    return array("d", packed).tolist()


def recorded_configs(header: e.Header) -> list[EffectiveConfig]:
    """What was in effect at the start, the shadow after the live one.

    Raises:
        ConfigError: one is no configuration to this version.
    """
    return [_loaded(told) for told in (header.config, header.shadow) if told is not None]


def _loaded(told: e.Configuration) -> EffectiveConfig:
    return load_config(told.text, told.source)


def _options(told: e.Options) -> CoreOptions:
    return CoreOptions(
        seed=told.seed,
        retry=told.retry,
        limits=told.limits,
        health=told.health,
        slow_start_s=told.slow_start_s,
        staleness_s=lambda: told.staleness_s,
        scrape_interval_s=told.scrape_interval_s,
        timer=lambda: 0.0,
    )
