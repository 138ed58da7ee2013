"""The metrics of one router: what is told to them, and the page."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from epp.director.record import RequestRecord
from epp.endpoints.types import Pool
from epp.observability import families_compat as compat
from epp.observability import families_own as own
from epp.observability.change_metrics import change_families
from epp.observability.exposition import CONTENT_TYPE, Sample, render
from epp.observability.instruments import Family, LabelCap
from epp.observability.request_metrics import RequestMetrics, ViewLabels
from epp.observability.state_metrics import IndexView, Sources, StateMetrics

__all__ = ["CONTENT_TYPE", "BuildInfo", "IndexView", "Metrics", "MetricsOptions", "Sources", "ViewLabels"]

_SOURCE_TYPE = ("metrics-data-source",)


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """What runs."""

    version: str
    commit: str = "unknown"
    build_ref: str = "unknown"
    python_version: str = field(default_factory=platform.python_version)


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """`pool_name` is the label `name` of pool metrics; `max_models` caps the values of model labels."""

    pool_name: str = "default"
    max_models: int = 1000
    max_fairness_ids: int = 1000


class Metrics:
    """Counts what it is told, reads the rest from `sources` when the page is made.

    Nothing is global: two of them live in one process. `registry` holds the process metrics; collectors that
    are registered there appear on the page as well.
    """

    def __init__(
        self,
        sources: Sources,
        build: BuildInfo,
        views: Sequence[ViewLabels] = (),
        options: MetricsOptions | None = None,
    ) -> None:
        options = options or MetricsOptions()
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        self._sources = sources
        self._build = build
        models = LabelCap(options.max_models, self._is_known_model)
        self._requests = RequestMetrics(
            pool=lambda: sources.table.pool,
            models=models,
            fairness=LabelCap(options.max_fairness_ids),
        )
        self._requests.use_views(views)
        self._state = StateMetrics(sources, options.pool_name, models)
        self._scrape_errors: dict[tuple[str, str], int] = {}
        self._poll_errors = 0
        self._observer_errors: dict[str, int] = {}

    def use_views(self, views: Sequence[ViewLabels]) -> None:
        """Count hits of these views from here on."""
        self._requests.use_views(views)

    def observe(self, records: Iterable[RequestRecord]) -> None:
        """Count requests that have ended."""
        self._requests.observe(records)

    def scrape_failed(self, address: str, kind: str) -> None:
        """Count a failed scrape; `kind` comes from a closed set."""
        self._poll_errors += 1
        key = (address, kind)
        if key not in self._scrape_errors:
            self._drop_removed(self._sources.table.pool)
        self._scrape_errors[key] = self._scrape_errors.get(key, 0) + 1

    def observer_failed(self, observer: str) -> None:
        """Count a failure of an observer of requests."""
        self._observer_errors[observer] = self._observer_errors.get(observer, 0) + 1

    def render_slices(self) -> Iterator[bytes]:
        """The page, a piece at a time; making one takes well below a millisecond.

        All pieces show the pool of the first one's moment, and a family and its twin the same values.
        """
        for family, samples in self._families(self._sources.table.pool):
            yield from render(family, samples)
        yield generate_latest(self.registry)

    def _families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        self._drop_removed(pool)
        yield from self._requests.families(pool)
        yield compat.RUNNING, list(self._running())
        yield from self._state.families(pool)
        yield own.SCRAPE_ERRORS, [(k, n) for k, n in self._scrape_errors.items() if k[0] in pool.by_address]
        yield compat.POLL_ERRORS, [(_SOURCE_TYPE, self._poll_errors)]
        yield own.OBSERVER_ERRORS, [((name,), count) for name, count in self._observer_errors.items()]
        yield compat.INFO, [((self._build.commit, self._build.build_ref), 1)]
        yield own.BUILD, [((self._build.version, self._build.python_version), 1)]
        yield from change_families(self._sources.changes)

    def _running(self) -> Iterator[Sample]:
        counts: dict[tuple[str, ...], int] = {}
        for names, count in self._sources.running().items():
            key = self._requests.flow_key(*names)
            counts[key] = counts.get(key, 0) + count
        yield from counts.items()

    def _drop_removed(self, pool: Pool) -> None:
        for key in [k for k in self._scrape_errors if k[0] not in pool.by_address]:
            del self._scrape_errors[key]

    def _is_known_model(self, name: str) -> bool:
        sources = self._sources
        return name in sources.catalog.names(sources.table.pool) or sources.rewrites_model(name)
