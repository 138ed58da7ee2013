"""What fills the endpoint table: discovery, scrapes and model probes."""

import asyncio
import logging
from collections.abc import Callable

from epp.app.endpoint_sources import endpoint_sources
from epp.app.options import metric_names, staleness_s
from epp.clock import Clock
from epp.compose import Core
from epp.config import EffectiveConfig, Settings
from epp.discovery.alarm import Alarm
from epp.discovery.discovery import Discovery, SourceReport
from epp.endpoints.types import EndpointMetrics, EndpointSpec, ModelInfo
from epp.http import UpstreamPool
from epp.scrape import ModelProbe, ModelProbeSettings, ScrapeFault, Scraper, ScrapeSettings, fetch_through
from epp.scrape.page import PageReader
from epp.scrape.repeats import RepeatLog

__all__ = ["PoolSources"]

logger = logging.getLogger("epp.scrape")
discovery_logger = logging.getLogger("epp.discovery")

_FIRST_LOOK_S = 1.0
_DEFAULT_PATH = "/metrics"


class PoolSources:
    """Starts and stops the sources, and passes what they tell to the core's upkeep."""

    def __init__(
        self,
        settings: Settings,
        core: Core,
        pool: UpstreamPool,
        clock: Clock,
        count_failure: Callable[[str, str], None],
        alarm: Alarm,
        *,
        key: str | None = None,
        rewrites_models: bool = True,
    ) -> None:
        """`alarm` cuts the pauses of discovery short; `key` is shown to endpoints; without `rewrites_models`
        InferenceModelRewrites are not applied.
        """
        self._settings = settings
        self._alarm = alarm
        self._core = core
        self._rewrites = core.options.rewrites if rewrites_models else None
        self._clock = clock
        self._count_failure = count_failure
        self._topology: int | None = None
        ask = fetch_through(pool)
        self._scraper = Scraper(
            ask,
            self,
            _scrape_settings(settings, key),
            clock=clock,
            sleep=asyncio.sleep,
            in_flight=self._in_flight,
            log=logger.warning,
            reader=PageReader(metric_names(settings)),
        )
        self._probe = ModelProbe(
            ask, self, ModelProbeSettings(api_key=key), clock=clock, sleep=asyncio.sleep, log=logger.warning
        )
        self._discovery = Discovery(
            endpoint_sources(settings, core.config, alarm, core.options.found_priorities, self._rewrites),
            self._on_endpoints,
            clock=clock,
            pause=alarm.new_pause(),
            failure_log=lambda name: RepeatLog(discovery_logger.warning, f"looking at {name}"),
            on_conflict=discovery_logger.warning,
        )

    async def start(self) -> None:
        """Find endpoints, for a moment before requests come, and begin to ask them."""
        self._scraper.start()
        self._probe.start()
        await self._discovery.start(_FIRST_LOOK_S)

    async def use(self, config: EffectiveConfig) -> None:
        """Follow the endpoint file that another configuration names.

        Raises:
            SourceError: it cannot be read; nothing has changed then.
        """
        priorities = self._core.options.found_priorities
        sources = endpoint_sources(self._settings, config, self._alarm, priorities, self._rewrites)
        await self._discovery.replace(sources, _FIRST_LOOK_S)

    def reports(self) -> tuple[SourceReport, ...]:
        """How each discovery source is doing."""
        return self._discovery.reports()

    async def stop(self) -> None:
        """End every task."""
        await self._discovery.stop()
        await self._scraper.stop()
        await self._probe.stop()

    def follow_pool(self) -> None:
        """Ask the endpoints that the pool has; cheap when nothing changed."""
        pool = self._core.table.pool
        if pool.topology != self._topology:
            self._topology = pool.topology
            self._scraper.sync(pool.endpoints)
            self._probe.sync(pool.endpoints)

    def use_key(self, key: str) -> None:
        """Show endpoints another key from the next question on."""
        self._scraper.use_key(key)
        self._probe.use_key(key)

    def refresh_models(self, address: str) -> None:
        """Ask an endpoint at once what it serves."""
        self._probe.refresh(address)

    def _in_flight(self, address: str) -> int:
        endpoint = self._core.table.endpoint(address)
        return self._core.state.ledger.requests[endpoint.slot] if endpoint is not None else 0

    def _on_endpoints(self, specs: tuple[EndpointSpec, ...]) -> None:
        """Discovery tells the whole pool."""
        changes = self._core.upkeep.sync_endpoints(specs, self._clock.monotonic())
        if changes:
            told = {"added": changes.added, "removed": changes.removed, "updated": changes.updated}
            extra = {name: " ".join(addresses) for name, addresses in told.items() if addresses}
            discovery_logger.info("endpoints changed", extra={"endpoints": len(specs), **extra})
        self.follow_pool()

    def on_metrics(self, address: str, incarnation: int, metrics: EndpointMetrics, now: float) -> None:
        """A scrape succeeded."""
        self._core.upkeep.on_metrics(address, incarnation, metrics, now)
        self.follow_pool()

    def on_failure(self, address: str, incarnation: int, kind: ScrapeFault, detail: str, now: float) -> None:
        """A scrape failed; the scraper has logged it."""
        del detail
        self._count_failure(address, kind.value)
        refused = kind is ScrapeFault.CONNECT
        self._core.upkeep.on_scrape_failure(address, incarnation, refused=refused, now=now)

    def on_models(self, address: str, incarnation: int, models: tuple[ModelInfo, ...], now: float) -> None:
        """An endpoint listed its models."""
        self._core.upkeep.on_models(address, incarnation, models, now)
        self.follow_pool()

    def on_token_ratio(self, model: str, bytes_per_token: float) -> None:
        """An endpoint counted the tokens of a sample text."""
        self._core.upkeep.on_token_ratio(model, bytes_per_token)


def _scrape_settings(settings: Settings, key: str | None) -> ScrapeSettings:
    path = settings.metrics.path
    return ScrapeSettings(
        path=None if path == _DEFAULT_PATH else path,
        api_key=key,
        refresh_interval_s=settings.metrics.refresh_interval_s,
        stale_s=staleness_s(settings),
    )
