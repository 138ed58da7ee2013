"""lora-affinity-scorer."""

from typing import ClassVar, Final

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle, SegmentColumn, Volatility
from epp.scheduling.registry import NoParameters
from epp.scheduling.scorers.load import fill_missing, known

__all__ = ["LoraAffinityScorer"]

_ACTIVE: Final = 1.0
_ROOM: Final = 0.8
_WAITING: Final = 0.6
_FULL: Final = 0.0


class LoraAffinityScorer:
    """Prefers endpoints that have the request's adapter loaded, then those with room to load it, as scraped.

    Formula: adapter running: 1; else fewer adapters running or waiting than the engine holds: 0.8; else
    adapter waiting: 0.6; else 0 (as the Go picker, but an adapter that is both running and waiting is one).
    A request for a base model needs no adapter: 1 for each; the Go picker prefers endpoints with free places.
    Missing data: see `epp.scheduling.scorers.load`; an engine that tells nothing of adapters may well have
    the one that is asked for, and is not known to be full.
    Ties: equal states give equal scores.
    """

    type: ClassVar[str] = "lora-affinity-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str) -> None:
        self.name = name
        self._columns: IdentityCache[dict[str, list[float]]] = IdentityCache()

    @classmethod
    def build(cls, name: str, _parameters: NoParameters, _context: BuildContext) -> "LoraAffinityScorer":
        """Factory for the registry."""
        return cls(name)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        if not cycle.adapter:
            return SegmentColumn(cycle.slots(), _ACTIVE)
        columns = self._columns.get(cycle.candidates)
        if columns is None:
            columns = {}
            self._columns.put(cycle.candidates, columns)
        column = columns.get(cycle.adapter)
        if column is None:
            column = columns[cycle.adapter] = _column(cycle.candidates, cycle.adapter)
        return column


def _column(candidates: tuple[Endpoint, ...], adapter: str) -> list[float]:
    scores = [_score(endpoint, adapter) for endpoint in candidates]
    return fill_missing(scores, list(known(scores)))


def _score(endpoint: Endpoint, adapter: str) -> float | None:
    metrics = endpoint.metrics
    if metrics is None or not endpoint.fresh or metrics.max_adapters is None:
        return None
    if adapter in metrics.running_adapters:
        return _ACTIVE
    if len({*metrics.running_adapters, *metrics.waiting_adapters}) < metrics.max_adapters:
        return _ROOM
    return _WAITING if adapter in metrics.waiting_adapters else _FULL
