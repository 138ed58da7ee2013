"""load-aware-scorer."""

from dataclasses import dataclass
from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.metric_reader import MetricReader
from epp.scheduling.registry import param
from epp.scheduling.scorers.load import NEUTRAL, fill_missing, known

__all__ = ["LoadAwareParameters", "LoadAwareScorer"]


@dataclass(frozen=True, slots=True)
class LoadAwareParameters:
    """Parameters of load-aware-scorer."""

    threshold: int = param(128, key="threshold", doc="Queue length that scores 0.", above=0)


class LoadAwareScorer:
    """Prefers endpoints with fewer waiting requests, measured against a fixed length, as scraped.

    Formula: 0.5 * (1 - min(q, T) / T), q = requests waiting, T = threshold (as the Go picker). So it gives at
    most 0.5, and a queue weighs the same whatever the others' are.
    Missing data: see `epp.scheduling.scorers.load`.
    Ties: equal queues give equal scores.
    """

    type: ClassVar[str] = "load-aware-scorer"
    volatility: ClassVar[Volatility] = "snapshot"

    def __init__(self, name: str, threshold: int = 128) -> None:
        self.name = name
        self._threshold = threshold
        self._waiting = MetricReader("waiting")

    @classmethod
    def build(cls, name: str, parameters: LoadAwareParameters, _context: BuildContext) -> "LoadAwareScorer":
        """Factory for the registry."""
        return cls(name, parameters.threshold)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        queues = self._waiting.read(cycle.candidates)
        most = self._threshold
        return fill_missing(queues, [NEUTRAL * (1.0 - min(queue, most) / most) for queue in known(queues)])
