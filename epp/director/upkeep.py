"""Keeps endpoint table, prefix index and learned ratios in step: the one writer for what sources report."""

from collections.abc import Callable, Iterable

from epp.director.director import Director
from epp.director.views import Tier, size_views
from epp.endpoints.table import TableChanges
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec, ModelInfo

__all__ = ["Upkeep"]

_SWEEP_BUDGET = 512  # index steps a call, a fraction of a millisecond


class Upkeep:
    """Applies what discovery, scraping and probes report. All calls are synchronous and short."""

    def __init__(self, director: Director, staleness_s: Callable[[], float]) -> None:
        state = director.state
        self._director = director
        self._table = state.table
        self._health = state.health
        self._ledger = state.ledger
        self._index = state.index
        self._ratios = state.ratios
        self._staleness_s = staleness_s

    def adopt_views(self) -> None:
        """The director has another state: give its views their sizes."""
        self._size_views(self._table.pool.endpoints)

    def _size_views(self, endpoints: Iterable[Endpoint]) -> None:
        state = self._director.state
        size_views(self._index, (*state.views, *state.shadow_views), endpoints)

    def sync_endpoints(self, specs: Iterable[EndpointSpec], now: float) -> TableChanges:
        """The complete set of endpoints; what that changes."""
        changes = self._table.sync(specs, now)
        self._size_views(self._table.pool.endpoints)
        return changes

    def on_metrics(self, address: str, incarnation: int, metrics: EndpointMetrics, now: float) -> None:
        """A scrape succeeded."""
        endpoint = self._current(address, incarnation)
        if endpoint is None:
            return
        endpoint = self._table.update_metrics(address, metrics, now) or endpoint
        self._health.on_scrape(endpoint, now)
        self._size_views((endpoint,))
        self._director.unobserved.on_scrape(endpoint, now)
        self._director.counter_ratios.scraped(endpoint.slot, metrics, self._ledger.requests[endpoint.slot])

    def on_scrape_failure(self, address: str, incarnation: int, *, refused: bool, now: float) -> None:
        """A scrape failed; a refused connection counts towards ejection like a refused request."""
        endpoint = self._current(address, incarnation)
        if endpoint is None:
            return
        self._table.scrape_failed(address, now)
        if refused:
            self._health.on_scrape_refused(endpoint, now)

    def on_models(self, address: str, incarnation: int, models: tuple[ModelInfo, ...], now: float) -> None:
        """`/v1/models` of an endpoint answered."""
        if self._current(address, incarnation) is not None:
            self._table.set_models(address, models, now)

    def on_cache_lost(self, address: str, *, gpu_only: bool) -> None:
        """The endpoint was told to forget what its tiers hold; with `gpu_only` its CPU tier keeps it."""
        if not gpu_only:
            self._table.end_incarnation(address)
        endpoint = self._table.endpoint(address)
        if endpoint is None:
            return
        if gpu_only:
            state = self._director.state
            for view in (*state.views, *state.shadow_views):
                if view.tier is Tier.GPU:
                    self._index.drop(endpoint.slot, view.index_view)
        self._size_views((endpoint,))

    def on_token_ratio(self, model: str, bytes_per_token: float) -> None:
        """`/tokenize` told what a token of a sample text is worth."""
        self._ratios.set_initial(model, bytes_per_token)

    def tick(self, now: float) -> bool:
        """Periodic work in small steps; True when the index has nothing left to clean."""
        self._director.unobserved.tick(now)
        self._table.refresh_staleness(now, self._staleness_s())
        self._table.publish()
        return self._index.sweep(_SWEEP_BUDGET)

    def _current(self, address: str, incarnation: int) -> Endpoint | None:
        """The endpoint, unless the report is about one that is gone."""
        endpoint = self._table.pool.by_address.get(address)
        return endpoint if endpoint is not None and endpoint.incarnation == incarnation else None
