"""running-requests-size-scorer."""

from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.metric_reader import MetricReader
from epp.scheduling.registry import NoParameters
from epp.scheduling.scorers.load import inverse_min_max

__all__ = ["RunningRequestsScorer"]


class RunningRequestsScorer:
    """Prefers endpoints with fewer running requests, as scraped.

    Formula: (max - r) / (max - min) over the candidates, r = requests running (as the Go picker).
    Missing data: see `epp.scheduling.scorers.load`.
    Ties: all equal gives 1.0 to each; equal counts give equal scores.
    """

    type: ClassVar[str] = "running-requests-size-scorer"
    volatility: ClassVar[Volatility] = "snapshot"

    def __init__(self, name: str) -> None:
        self.name = name
        self._running = MetricReader("running")

    @classmethod
    def build(cls, name: str, _parameters: NoParameters, _context: BuildContext) -> "RunningRequestsScorer":
        """Factory for the registry."""
        return cls(name)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        return inverse_min_max(self._running.read(cycle.candidates))
