"""kv-cache-utilization-scorer."""

from operator import attrgetter
from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.registry import NoParameters
from epp.scheduling.scorers.load import fill_missing, read_metric

__all__ = ["KvCacheUtilizationScorer"]

_kv_usage = attrgetter("kv_usage")


class KvCacheUtilizationScorer:
    """Prefers endpoints whose KV blocks are less used by live requests, as scraped.

    Formula: 1 - usage, usage in 0..1; a usage above 1 counts as 1 (as the Go picker).
    Missing data: see `epp.scheduling.scorers.load`; an endpoint that was never scraped does not look empty.
    Ties: equal usage gives equal scores.
    """

    type: ClassVar[str] = "kv-cache-utilization-scorer"
    volatility: ClassVar[Volatility] = "snapshot"

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def build(
        cls, name: str, _parameters: NoParameters, _context: BuildContext
    ) -> "KvCacheUtilizationScorer":
        """Factory for the registry."""
        return cls(name)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        usages = read_metric(cycle.candidates, _kv_usage)
        return fill_missing([None if usage is None else 1.0 - min(usage, 1.0) for usage in usages])
