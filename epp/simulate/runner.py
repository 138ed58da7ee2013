"""The event loop: clients, router and servers in virtual time.

Events are ordered by time, then by the number in which they were made, so equal seeds give equal bytes.
"""

import gc
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Final

from epp.config.effective import EffectiveConfig
from epp.director.exchange import Exchange
from epp.director.record import RequestRecord
from epp.director.types import Target
from epp.director.views import Tier
from epp.endpoints.types import EndpointMetrics, EndpointSpec
from epp.engine import CpuTier, EngineRequest, StepOutput, StepRun, Timeline
from epp.errors import EppError
from epp.simulate.events import Event, EventKind
from epp.simulate.fleet import Fleet, Offload, engine_config
from epp.simulate.outcome import Outcome, RequestRow
from epp.simulate.prompts import KeyMaker
from epp.simulate.router import SimRouter
from epp.simulate.server import Gauges, ModelServer
from epp.simulate.workload import SimRequest, Workload

__all__ = ["Simulation", "simulate"]

Progress = Callable[[int, int], None]
Forecasts = Callable[[int, dict[str, float]], None]
"""Told a request's number, and by endpoint the time to its first token had it been sent there."""

_COLLECT_AT: Final = 200_000  # new containers
_RECONNECT_S: Final = 0.002
_UNCHANGED_S: Final = 0.5  # a scrape that shows what the last one did is told again only so often


@dataclass(slots=True)
class _Told:
    """The last scrape of a server that the router was told of."""

    gauges: Gauges
    metrics: EndpointMetrics
    at: float


@dataclass(slots=True, eq=False)
class _Live:
    """A request under way."""

    request: SimRequest
    arrival_s: float
    exchange: Exchange
    target: Target
    first_token_s: float | None = None


class Simulation:
    """One run; `run` may be called once."""

    def __init__(
        self,
        fleet: Fleet,
        config: EffectiveConfig,
        workload: Workload,
        *,
        seed: int = 0,
        events: Iterable[Event] = (),
        observer: Callable[[RequestRecord], None] | None = None,
        forecasts: Forecasts | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.fleet = fleet
        self.outcome = Outcome(output_counted=fleet.output_counted)
        self._workload = workload
        self._progress = progress
        self._forecasts = forecasts
        specs = tuple(
            EndpointSpec("http", f"engine-{n}", 8000, name=f"engine-{n}") for n in range(fleet.engines)
        )
        self.servers = {spec.address: server for spec, server in zip(specs, _servers(fleet), strict=True)}
        self.router = SimRouter(
            config, specs, model=fleet.model, seed=seed, scrape_s=fleet.scrape_s, observer=observer
        )
        self._keys = KeyMaker("engine", fleet.block_tokens)
        self._noise = random.Random(seed)
        servers = list(self.servers.items())
        self._due = [
            (event.at_s, partial(self._happen, event.kind, *servers[event.endpoint])) for event in events
        ]
        self._live: dict[str, _Live] = {}
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._made = 0
        self._scraped_at = float("-inf")
        self._told: dict[str, _Told] = {}

    def at(self, when: float, action: Callable[[float], None]) -> None:
        """Do `action` at a time."""
        self._made += 1
        heappush(self._heap, (when, self._made, action))

    def run(self) -> Outcome:
        """To the end of the workload."""
        started = time.perf_counter()
        for when, request in self._workload.initial():
            self.at(when, partial(self._arrive, request))
        for when, happen in self._due:
            self.at(when, happen)
        heap = self._heap
        while heap:
            now, _, action = heappop(heap)
            action(now)
            self.outcome.events += 1
        busy_s = sum(server.busy_s for server in self.servers.values())
        end_s = max((row.end_s for row in self.outcome.rows), default=0.0)
        self.outcome.busy_share = busy_s / (end_s * len(self.servers)) if end_s else 0.0
        self.outcome.wall_s = time.perf_counter() - started
        self.outcome.router_s = self.router.spent_s
        return self.outcome

    # ---------------------------------------------------------------- clients and router

    def _arrive(self, request: SimRequest, now: float) -> None:
        self._scrape(now)
        try:
            exchange, target = self.router.pick(request, now)
        except EppError:
            self.outcome.rejected += 1
            self._follow(request, now)
            return
        live = _Live(request, now, exchange, target)
        queued_s = now + self.fleet.api_s + self.fleet.api_token_s * request.prompt_tokens
        if self._forecasts is not None:
            self._forecasts(request.number, self._forecast(request, now, queued_s))
        self.at(queued_s, partial(self._submit, live))

    def _forecast(self, request: SimRequest, now: float, queued_s: float) -> dict[str, float]:
        wanted = self._engine_request(request)
        servers = self.servers.items()
        return {
            address: server.forecast_s(wanted, queued_s) - now for address, server in servers if server.up
        }

    def _engine_request(self, request: SimRequest) -> EngineRequest:
        answer = () if request.answer is None else (request.answer,)
        keys = tuple(self._keys.keys((*request.segments, *answer)))
        return EngineRequest(str(request.number), request.prompt_tokens, request.output_tokens, keys)

    def _follow(self, request: SimRequest, now: float) -> None:
        """What the client sends next."""
        for when, following in self._workload.next_after(request, now):
            self.at(when, partial(self._arrive, following))

    def _scrape(self, now: float) -> None:
        """Tell the router what the last scrapes before `now` saw, where it differs from what it knows."""
        interval = self.fleet.scrape_s
        when = now // interval * interval
        if when <= self._scraped_at:
            return
        self._scraped_at = when
        for address, server in self.servers.items():
            if not server.scrapable:
                self.router.scrape_failed(address, when, refused=not server.up)
                continue
            gauges = server.gauges_at(when)
            told = self._told.get(address)
            if told is None or told.gauges != gauges:
                self._told[address] = told = _Told(gauges, self._metrics(server, gauges), when)
            elif when - told.at < _UNCHANGED_S:
                continue
            told.at = when
            self.router.scrape(address, told.metrics, when)
        self.router.tick(when)

    def _metrics(self, server: ModelServer, gauges: Gauges) -> EndpointMetrics:
        fleet = self.fleet
        return EndpointMetrics(
            waiting=gauges.waiting,
            running=gauges.running,
            kv_usage=gauges.kv_usage,
            block_tokens=16,
            gpu_capacity_tokens=fleet.gpu_tokens,
            cpu_capacity_tokens=server.cpu_tokens or None if fleet.report_cpu_tier else None,
            process_start=1.0 + server.started_s,
            engine="vllm",
        )

    # ---------------------------------------------------------------- servers

    def _submit(self, live: _Live, now: float) -> None:
        server = self.servers[live.target.address]
        if not server.up:
            self._send_again(live, now)
            return
        wanted = self._engine_request(live.request)
        if wanted.kv_tokens > server.config.capacity_tokens:  # the server answers 400
            self._fail(live, now)
            return
        self._live[wanted.request_id] = live
        server.engine.submit(wanted, now)
        server.note(now)
        if server.run is None:
            self._begin(server, now)
        elif server.run.open:
            steps = server.run.steps
            server.run.cut(now)
            if server.run.steps != steps:
                self._await_end(server, server.run)

    def _begin(self, server: ModelServer, now: float) -> None:
        server.run = server.engine.begin(now)
        server.note(now)
        if server.run is not None:
            self._disturb(server.run)
            self._await_end(server, server.run)
            return
        wake_s = server.engine.wake_s
        if wake_s is not None:
            server.version += 1
            self.at(wake_s, partial(self._wake, server, server.version))

    def _disturb(self, run: StepRun) -> None:
        """Real steps are not all alike; a run of many is nearer to its mean."""
        if self.fleet.step_noise:
            factor = max(0.1, self._noise.gauss(1.0, self.fleet.step_noise / run.steps**0.5))
            run.first_s *= factor
            run.growth_s *= factor

    def _await_end(self, server: ModelServer, run: StepRun) -> None:
        server.version += 1
        self.at(run.end_s, partial(self._end_steps, server, server.version))

    def _wake(self, server: ModelServer, version: int, now: float) -> None:
        if version == server.version and server.run is None:
            self._begin(server, now)

    def _end_steps(self, server: ModelServer, version: int, now: float) -> None:
        run = server.run
        if version != server.version or run is None:
            return
        server.busy_s += now - run.start_s
        result = server.engine.finish(run, brief=True)
        server.run = None
        for output in result.outputs:
            if output.timeline is not None:
                self._on_output(output, output.timeline, now)
        self._begin(server, now)

    def _on_output(self, output: StepOutput, timeline: Timeline, now: float) -> None:
        live = self._live[output.request_id]
        if live.first_token_s is None:
            live.first_token_s = now
            self.router.on_first_token(live.exchange, now)
        if output.finish_reason is not None:
            del self._live[output.request_id]
            self.router.on_complete(live.exchange, timeline.generated_tokens, now)
            self._record(live, timeline, now)
            self._follow(live.request, now)

    # ---------------------------------------------------------------- failures

    def _happen(self, kind: EventKind, address: str, server: ModelServer, now: float) -> None:
        if kind is EventKind.DOWN and server.up:
            server.stop()
            lost = [live for live in self._live.values() if live.target.address == address]
            for live in lost:
                del self._live[str(live.request.number)]
                self._send_again(live, now)
        elif kind is EventKind.UP and not server.up:
            server.start(now)
            self._told.pop(address, None)
        elif kind is EventKind.CPU_TIER_OFF:
            server.lose_cpu_tier()
            self._told.pop(address, None)
        elif kind in (EventKind.SCRAPES_FAIL, EventKind.SCRAPES_RECOVER):
            server.scrapable = server.up and kind is EventKind.SCRAPES_RECOVER

    def _send_again(self, live: _Live, now: float) -> None:
        """The endpoint is gone: another one where no token has come yet, else the request has failed."""
        target = self.router.retry(live.exchange, now) if live.first_token_s is None else None
        if target is not None:
            live.target = target
            self.at(now + _RECONNECT_S, partial(self._submit, live))
            return
        self._fail(live, now)

    def _fail(self, live: _Live, now: float) -> None:
        self.router.on_error(live.exchange, now)
        self.outcome.failed += 1
        self._follow(live.request, now)

    # ---------------------------------------------------------------- results

    def _record(self, live: _Live, timeline: Timeline, now: float) -> None:
        request, predicted = live.request, live.exchange.predicted
        first_s = live.first_token_s
        row = RequestRow(
            number=request.number,
            stage=request.stage,
            endpoint=live.target.address,
            arrival_s=live.arrival_s,
            first_token_s=now if first_s is None else first_s,
            end_s=now,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            gpu_hit_tokens=timeline.gpu_hit_tokens,
            cpu_hit_tokens=timeline.cpu_hit_tokens,
            predicted_gpu_tokens=predicted.get(Tier.GPU, 0),
            predicted_cpu_tokens=predicted.get(Tier.CPU, 0),
            preemptions=timeline.preemptions,
        )
        self.outcome.rows.append(row)
        self.outcome.preemptions += timeline.preemptions
        if self._progress is not None:
            self._progress(len(self.outcome.rows), self._workload.total)


def _servers(fleet: Fleet) -> list[ModelServer]:
    config = engine_config(fleet)
    shared = None
    if fleet.offload is Offload.LMCACHE_SHARED:
        shared = CpuTier(config.cpu_blocks * fleet.engines)
    return [ModelServer(f"engine-{n}", config, fleet.step_latency, shared) for n in range(fleet.engines)]


def simulate(
    fleet: Fleet,
    config: EffectiveConfig,
    workload: Workload,
    *,
    seed: int = 0,
    events: Iterable[Event] = (),
    observer: Callable[[RequestRecord], None] | None = None,
    forecasts: Forecasts | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run `workload` on `fleet` behind the router that `config` makes."""
    simulation = Simulation(
        fleet, config, workload,
        seed=seed, events=events, observer=observer, forecasts=forecasts, progress=progress,
    )  # fmt: skip
    with _rare_collections():
        return simulation.run()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """What a workload is made of lives to the end: to look through it again and again finds no garbage."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AT)
    try:
        yield
    finally:
        gc.set_threshold(*before)
