"""Everything that watches requests: metrics, access log, decision log, process log."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from epp import __version__
from epp.app.watched import WatchedFiles
from epp.clock import Clock
from epp.compose import Core
from epp.config import Settings
from epp.director.record import RequestRecord
from epp.director.views import Tier, TierView, capacity_mismatch, capacity_tokens, predicted_hits
from epp.endpoints.types import Endpoint
from epp.errors import ConfigError, ConfigProblem
from epp.observability.access_log import AccessLog
from epp.observability.change_metrics import Changes
from epp.observability.decisions import DecisionLog
from epp.observability.guard import guarded
from epp.observability.line_writer import LineWriter
from epp.observability.logs import configure_logging
from epp.observability.metrics import (
    CONTENT_TYPE,
    BuildInfo,
    IndexView,
    Metrics,
    MetricsOptions,
    Sources,
    ViewLabels,
)
from epp.proxy import Relay
from epp.proxy.turns import Turns
from epp.scheduling.producers.approx_prefix_cache import DEFAULT_PRODUCER
from epp.scheduling.receipt import PredictedHit
from epp.security import KeyGate

__all__ = ["Observers"]

logger = logging.getLogger("epp")


class Observers:
    """Registered with the director in the order in which they see a request's record.

    Records that come together are observed together; whoever asks for figures gets those of all records.
    """

    metrics_content_type = CONTENT_TYPE

    def __init__(
        self,
        settings: Settings,
        core: Core,
        relay: Relay,
        clock: Clock,
        *,
        changes: Changes,
        files: WatchedFiles,
        gate: KeyGate | None,
    ) -> None:
        self._settings = settings
        self._human = _human(settings)
        state = core.state
        sources = Sources(
            table=core.table,
            ledger=state.ledger,
            health=state.health,
            catalog=state.catalog,
            now=clock.monotonic,
            index_views=lambda: [_index_view(core, view) for view in core.state.views],
            bytes_per_token=state.ratios.models,
            buffered_bytes=lambda: relay.buffered_bytes,
            running=core.director.running.counts,
            dropped_lines=lambda: self._writer.dropped,
            changes=changes,
            saturation=lambda: _saturation(core, clock.monotonic()),
            file_reloads=files.reloads,
            file_faults=files.faults,
            key_refusals=lambda: gate.refused if gate is not None else {},
            rewrites_model=core.options.rewrites.names.__contains__,
        )
        self.metrics = Metrics(
            sources,
            BuildInfo(__version__),
            _view_labels(core),
            MetricsOptions(pool_name=settings.pool_name),
        )
        self.decisions = DecisionLog(settings.receipts.keep, clock.wall, _hits)
        self._writer = _line_writer(settings.access_log.file)
        self._access_log = AccessLog(
            self._writer.write, clock.wall, human=self._human, prefix=settings.access_log.prefix
        )
        self._register(core)

    def _register(self, core: Core) -> None:
        watchers: dict[str, Callable[[Iterator[RequestRecord]], None]] = {
            "metrics": self.metrics.observe,
            "decisions": self.decisions.observe,
        }
        if self._settings.access_log.enabled:
            watchers["access_log"] = self._access_log.observe
        self._records = Turns(guarded(watchers, self._observer_failed))
        core.director.tells_chains = self._settings.access_log.prefix
        core.director.observers.append(self._records.add)

    def start(self) -> None:
        """Begin to write logs."""
        configure_logging(self._settings.log.level, human=self._human)
        self._writer.start()

    def reconfigure(self, core: Core) -> None:
        """Another configuration is in effect."""
        self.metrics.use_views(_view_labels(core))

    def stop(self) -> None:
        """Write what waits."""
        self._records.flush()
        self._writer.close()

    def render_metrics(self) -> Iterator[bytes]:
        """The page of metrics in slices."""
        self._records.flush()
        return self.metrics.render_slices()

    def render(self, limit: int) -> Iterator[dict[str, Any]]:
        """The last decisions, at most `limit`, newest first."""
        self._records.flush()
        return self.decisions.render(limit)

    def reopen(self) -> None:
        """Open the access log's file anew."""
        self._writer.reopen()

    def _observer_failed(self, name: str, error: Exception) -> None:
        self.metrics.observer_failed(name)
        logger.error("observer %s failed", name, exc_info=error)

    def scrape_failed(self, address: str, kind: str) -> None:
        """Count a failed scrape."""
        self.metrics.scrape_failed(address, kind)


def _saturation(core: Core, now: float) -> float | None:
    """How full the endpoints are that may be picked."""
    state = core.state
    routable = state.health.routable(core.table.pool.endpoints, now)
    return state.admission.detector.saturation(routable, state.ledger, now)


def _hits(record: RequestRecord, endpoint: Endpoint) -> PredictedHit:
    """What a candidate was predicted to hold."""
    if record.decision is None or not record.decision.cycle.matches:
        return PredictedHit()
    cycle = record.decision.cycle
    hits = predicted_hits(record.views, endpoint, cycle.matches, cycle.prompt_tokens)
    return PredictedHit(hits.get(Tier.GPU), hits.get(Tier.CPU))


def _line_writer(file: str | None) -> LineWriter:
    if file is None:
        return LineWriter(stream=sys.stdout.buffer)
    try:
        return LineWriter(Path(file))
    except OSError as error:
        remedy = "name a file that epp may write to"
        problem = ConfigProblem("accessLog.file", f"{file} cannot be opened: {error.strerror}", remedy)
        raise ConfigError([problem], "settings") from None


def _human(settings: Settings) -> bool:
    if settings.log.format == "auto":
        return sys.stderr.isatty()
    return settings.log.format == "human"


def _view_labels(core: Core) -> list[ViewLabels]:
    return [
        ViewLabels(view.name, DEFAULT_PRODUCER, view.tier.value, view.block_bytes)
        for view in core.state.views
    ]


def _index_view(core: Core, view: TierView) -> IndexView:
    index = core.state.index
    return IndexView(
        plugin_name=view.name,
        plugin_type=DEFAULT_PRODUCER,
        tier=view.tier.value,
        entries=lambda slot: index.blocks(view.index_view, slot),
        tokens=lambda slot: index.tokens(view.index_view, slot),
        capacity_tokens=lambda endpoint: capacity_tokens(view, endpoint),
        mismatch=lambda endpoint: capacity_mismatch(view, endpoint),
    )
