"""Gauges, read from the router's state when the page is made, so that none outlives its endpoint."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from epp.endpoints.health import PassiveHealth, takes_requests
from epp.endpoints.ledger import Ledger
from epp.endpoints.models import ModelCatalog
from epp.endpoints.table import EndpointTable
from epp.endpoints.types import Endpoint, EndpointMetrics, Pool
from epp.observability import families_compat as compat
from epp.observability import families_own as own
from epp.observability.change_metrics import Changes
from epp.observability.exposition import Sample
from epp.observability.instruments import Family, LabelCap

__all__ = ["IndexView", "Sources", "StateMetrics"]

_ONE_STAGE: Final = ""  # the Go picker has one for prefill and one for decode endpoints
_NO_FLOW: Final = ("inflight-load-producer", "default-flow", "0")

RunningKey = tuple[str, str, str, int]  # model as named, target model, fairness id, priority


@dataclass(frozen=True, slots=True)
class IndexView:
    """One view of the prefix index, as its sizes can be asked.

    `entries` and `tokens` take an endpoint's slot. `capacity_tokens` is the size that is assumed;
    `mismatch` is configured ÷ reported size where they differ too much, else None.
    """

    plugin_name: str
    plugin_type: str
    tier: str
    entries: Callable[[int], int]
    tokens: Callable[[int], int]
    capacity_tokens: Callable[[Endpoint], int]
    mismatch: Callable[[Endpoint], float | None]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the gauges come from. `now` is the clock that the table's times are of.

    `saturation` is the detector's number for the endpoints that may be picked, None when nothing is known.
    `file_reloads` gives what was read, `ok` or `failed`, and how often; `file_faults` whether it cannot be
    used as it is; `key_refusals` the requests without a valid key, by cause; `rewrites_model` whether a rule
    rewrites a model's name or to it, which then is a label whatever the cap.
    """

    table: EndpointTable
    ledger: Ledger
    health: PassiveHealth
    catalog: ModelCatalog
    now: Callable[[], float]
    index_views: Callable[[], Sequence[IndexView]] = tuple
    running: Callable[[], Mapping[RunningKey, int]] = dict
    bytes_per_token: Callable[[], Mapping[str, float]] = dict
    buffered_bytes: Callable[[], int] = int
    dropped_lines: Callable[[], int] = int
    changes: Changes = field(default_factory=Changes)
    saturation: Callable[[], float | None] = lambda: None
    file_reloads: Callable[[], Iterable[tuple[str, str, int]]] = tuple
    file_faults: Callable[[], Iterable[tuple[str, bool]]] = tuple
    key_refusals: Callable[[], Mapping[str, int]] = dict
    rewrites_model: Callable[[str], bool] = lambda _: False


class StateMetrics:
    """Families of pool, endpoints, health and index."""

    def __init__(self, sources: Sources, pool_name: str, models: LabelCap) -> None:
        """`models` bounds the labels for names of models."""
        self._models = models
        self._sources = sources
        self._name = (pool_name,)

    def families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        """All families with the values of this moment; `pool` is the one to show."""
        ready = [e for e in pool.endpoints if self._may_be_picked(e)]
        yield from self._pool_families(pool, ready)
        yield from self._endpoint_families(pool, ready)
        yield from self._load_families(pool)
        yield from self._health_families(pool)
        yield from self._index_families(pool)

    def _may_be_picked(self, endpoint: Endpoint) -> bool:
        health = self._sources.health
        return takes_requests(endpoint) and health.ejected(endpoint, self._sources.now()) is None

    def _pool_families(self, pool: Pool, ready: Sequence[Endpoint]) -> Iterator[tuple[Family, list[Sample]]]:
        columns = (
            (compat.AVERAGE_KV, compat.DEVIATION_KV, _fresh(pool, lambda m: m.kv_usage)),
            (compat.AVERAGE_QUEUE, compat.DEVIATION_QUEUE, _fresh(pool, lambda m: m.waiting)),
            (compat.AVERAGE_RUNNING, compat.DEVIATION_RUNNING, _fresh(pool, lambda m: m.running)),
        )
        for average, deviation, column in columns:
            numbers = [value for _, value in column]
            mean = math.fsum(numbers) / len(numbers) if numbers else 0.0
            spread = math.sqrt(math.fsum((n - mean) ** 2 for n in numbers) / len(numbers)) if numbers else 0.0
            yield average, [(self._name, mean)] if numbers else []
            yield deviation, [(self._name, spread)] if numbers else []
        yield compat.READY, [(self._name, sum(e.fresh for e in ready))]
        waiting = _fresh(pool, lambda m: m.waiting)
        yield compat.QUEUE_BY_ENDPOINT, [((*self._name, e.address), value) for e, value in waiting]
        full = self._sources.saturation()
        yield compat.POOL_SATURATION, [((*self._name, _ONE_STAGE), full)] if full is not None else []
        yield own.ENDPOINTS, [((), len(pool.endpoints))]
        yield own.STALE, [((), sum(not e.fresh for e in pool.endpoints))]

    def _endpoint_families(
        self, pool: Pool, ready: Sequence[Endpoint]
    ) -> Iterator[tuple[Family, list[Sample]]]:
        yield own.ENDPOINT_QUEUE, _by_address(_fresh(pool, lambda m: m.waiting))
        yield own.ENDPOINT_RUNNING, _by_address(_fresh(pool, lambda m: m.running))
        yield own.ENDPOINT_KV, _by_address(_fresh(pool, lambda m: m.kv_usage))
        # Counters of the engine do not move while they are stale, so the last known value is right.
        prompt_tokens = [(e, e.metrics.prompt_tokens_total) for e in pool.endpoints if e.metrics is not None]
        yield own.ENDPOINT_PROMPT_TOKENS, _by_address((e, n) for e, n in prompt_tokens if n is not None)
        yield (
            own.ENDPOINT_CACHED_TOKENS,
            [
                ((e.address, source), n)
                for e in pool.endpoints
                if e.metrics is not None
                for source, n in e.metrics.cached_tokens_by_source.items()
            ],
        )
        slots = {e.slot for e in ready}
        yield own.ENDPOINT_READY, [((e.address,), int(e.slot in slots)) for e in pool.endpoints]
        yield own.ENDPOINT_METRICS_AGE, list(self._ages(pool))

    def _ages(self, pool: Pool) -> Iterator[Sample]:
        now = self._sources.now()
        for endpoint in pool.endpoints:
            reports = self._sources.table.reports(endpoint.address)
            if reports is not None and reports.scraped_at is not None:
                yield (endpoint.address,), now - reports.scraped_at

    def _load_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        ledger = self._sources.ledger
        requests = [(e, ledger.requests[e.slot]) for e in pool.endpoints]
        tokens = [(e, ledger.tokens[e.slot]) for e in pool.endpoints]
        yield own.ENDPOINT_INFLIGHT, _by_address(requests)
        yield own.ENDPOINT_INFLIGHT_TOKENS, _by_address(tokens)
        yield compat.INFLIGHT_BY_PRODUCER, _by_producer(requests)
        yield compat.INFLIGHT_TOKENS_BY_PRODUCER, _by_producer(tokens)
        yield own.INFLIGHT, [((), ledger.total())]
        yield own.LOG_DROPPED, [((), self._sources.dropped_lines())]
        yield own.BUFFERED, [((), self._sources.buffered_bytes())]
        learned = self._sources.bytes_per_token()
        shown: list[Sample] = [
            ((model,), ratio) for model, ratio in learned.items() if self._models.label(model) == model
        ]
        yield own.BYTES_PER_TOKEN, shown
        yield from self._guard_families()

    def _guard_families(self) -> Iterator[tuple[Family, list[Sample]]]:
        sources = self._sources
        yield own.FILE_RELOADS, [((what, outcome), n) for what, outcome, n in sources.file_reloads()]
        yield own.FILE_FAULT, [((what,), int(faulty)) for what, faulty in sources.file_faults()]
        yield own.KEY_REFUSALS, [((cause,), n) for cause, n in sources.key_refusals().items()]

    def _health_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        now, health = self._sources.now(), self._sources.health
        ejected = [left_out for e in pool.endpoints if (left_out := health.ejected(e, now)) is not None]
        yield own.ENDPOINT_EJECTED, [((left_out.address, left_out.cause.value), 1) for left_out in ejected]
        yield own.EJECTIONS, [((cause.value,), count) for cause, count in health.ejections.items()]
        yield own.PANIC, [((model,), int(health.panic(group, now))) for model, group in self._groups(pool)]

    def _groups(self, pool: Pool) -> Iterator[tuple[str, tuple[Endpoint, ...]]]:
        """Endpoints by base model."""
        for name in self._sources.catalog.names(pool):
            found = self._sources.catalog.resolve(pool, name)
            if not found.adapter:
                yield name, found.endpoints

    def _index_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        views = self._sources.index_views()
        entries = [(view, e, view.entries(e.slot)) for view in views for e in pool.endpoints]
        sums = {id(view): 0 for view in views}
        for view, _, count in entries:
            sums[id(view)] += count
        yield (
            compat.INDEXER_SIZE,
            [((v.plugin_name, v.plugin_type, v.tier), sums[id(v)]) for v in views],
        )
        yield own.INDEX_ENTRIES, [((v.plugin_name, v.tier, e.address), n) for v, e, n in entries]
        yield own.INDEX_TOKENS, _by_view(views, pool, lambda view, e: view.tokens(e.slot))
        yield own.INDEX_CAPACITY, _by_view(views, pool, lambda view, e: view.capacity_tokens(e))
        yield own.INDEX_MISMATCH, _by_view(views, pool, lambda view, e: view.mismatch(e))


def _fresh(pool: Pool, read: Callable[[EndpointMetrics], float | None]) -> list[tuple[Endpoint, float]]:
    """A column of the endpoints whose metrics are fresh and say it."""
    told = [(e, read(e.metrics)) for e in pool.endpoints if e.fresh and e.metrics is not None]
    return [(e, value) for e, value in told if value is not None]


def _by_address(column: Iterable[tuple[Endpoint, float]]) -> list[Sample]:
    return [((e.address,), value) for e, value in column]


def _by_producer(column: Iterable[tuple[Endpoint, int]]) -> list[Sample]:
    return [((e.address, "", *_NO_FLOW), value) for e, value in column]


def _by_view(
    views: Iterable[IndexView], pool: Pool, read: Callable[[IndexView, Endpoint], float | None]
) -> list[Sample]:
    told = [(view, e, read(view, e)) for view in views for e in pool.endpoints]
    return [((view.plugin_name, view.tier, e.address), n) for view, e, n in told if n is not None]
