"""One modelled server of the fleet, and what a scrape of it would have shown at any recent moment."""

from collections import deque

import msgspec

from epp.engine import CpuTier, Engine, EngineConfig, EngineRequest, LatencyProfile, StepRun

__all__ = ["Gauges", "ModelServer"]


class Gauges(msgspec.Struct, frozen=True):
    """What a metrics page shows."""

    waiting: int
    running: int
    kv_usage: float


class ModelServer:
    """An engine with its step under way and its past gauges.

    Attributes:
        run: steps under way; `version` grows when their end changes, so that older events are void.
        up: it takes requests; `scrapable`: its metrics can be read.
        started_s: when its process began.
        cpu_tokens: size of the CPU tier that it reports.
    """

    def __init__(
        self, name: str, config: EngineConfig, latency: LatencyProfile, cpu_tier: CpuTier | None
    ) -> None:
        self.name = name
        self.config = config
        self.latency = latency
        self.engine = Engine(config, latency, cpu_tier)
        self.run: StepRun | None = None
        self.version = 0
        self.up = True
        self.scrapable = True
        self.started_s = 0.0
        self.cpu_tokens = config.cpu_blocks * config.block_tokens
        self.busy_s = 0.0
        self._cpu_tier = cpu_tier
        self._past: deque[tuple[float, Gauges]] = deque([(float("-inf"), Gauges(0, 0, 0.0))])

    def stop(self) -> None:
        """The process dies."""
        self.up = self.scrapable = False
        self.run = None
        self.version += 1

    def start(self, now: float) -> None:
        """Another process, with empty tiers of its own."""
        self.engine = Engine(self.config, self.latency, self._cpu_tier)
        self.up = self.scrapable = True
        self.started_s = now
        self.note(now)

    def lose_cpu_tier(self) -> None:
        """Its CPU tier fails."""
        self.engine.lose_cpu_tier()
        self.cpu_tokens = 0

    def forecast_s(self, request: EngineRequest, now: float) -> float:
        """When `request`, queued at `now`, would have its first token if nothing came after it."""
        start_s = now if self.run is None else max(now, self.run.boundary_s(now))
        return self.engine.forecast(request, start_s)

    def note(self, now: float) -> None:
        """Remember the gauges of this moment."""
        now_shown = self.engine.gauges()
        gauges = Gauges(now_shown.waiting + now_shown.loading, now_shown.running, now_shown.kv_usage)
        self._past.append((now, gauges))

    def gauges_at(self, when: float) -> Gauges:
        """What a scrape at `when` saw; earlier moments may not be asked for afterwards."""
        past = self._past
        while len(past) > 1 and past[1][0] <= when:
            past.popleft()
        return past[0][1]
