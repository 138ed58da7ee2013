"""kv-cache-utilization-scorer."""

from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.metric_reader import MetricReader
from epp.scheduling.registry import NoParameters
from epp.scheduling.scorers.load import fill_missing, known

__all__ = ["KvCacheUtilizationScorer"]


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
        self._kv_usage = MetricReader("kv_usage")

    @classmethod
    def build(
        cls, name: str, _parameters: NoParameters, _context: BuildContext
    ) -> "KvCacheUtilizationScorer":
        """Factory for the registry."""
        return cls(name)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        usages = self._kv_usage.read(cycle.candidates)
        scores = [1.0 - usage if usage < 1.0 else 0.0 for usage in known(usages)]
        return fill_missing(usages, scores)
