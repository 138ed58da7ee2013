"""active-request-scorer."""

from dataclasses import dataclass
from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, SegmentColumn, Volatility
from epp.scheduling.registry import param

__all__ = ["ActiveRequestParameters", "ActiveRequestScorer"]


@dataclass(frozen=True, slots=True)
class ActiveRequestParameters:
    """Parameters of active-request-scorer."""

    idle_threshold: int = param(
        0, key="idleThreshold", doc="Endpoints with at most this many requests in flight score 1.", minimum=0
    )
    max_busy_score: float = param(
        1.0,
        key="maxBusyScore",
        doc="Scale of the score of endpoints above the threshold.",
        minimum=0,
        maximum=1,
    )
    request_timeout: str | None = param(
        None,
        key="requestTimeout",
        doc="Ignored.",
        deprecated="requests in flight are counted exactly from pick to end and never time out of the count",
    )
    in_flight_load_producer_name: str | None = param(
        None, key="inFlightLoadProducerName", doc="Ignored: there is one ledger of requests in flight."
    )


class ActiveRequestScorer:
    """Prefers endpoints with fewer requests of this router in flight, exact at the moment of the pick.

    Formula: c <= idleThreshold gives 1; else (max - c) / max * maxBusyScore, c = requests in flight from
    this router, max over the candidates (as the Go picker).
    Missing data: none; an endpoint without requests has 0.
    Ties: equal counts give equal scores; all at or below the threshold gives 1.0 to each.
    """

    type: ClassVar[str] = "active-request-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, idle_threshold: int = 0, max_busy_score: float = 1.0) -> None:
        self.name = name
        self._idle_threshold = idle_threshold
        self._max_busy_score = max_busy_score

    @classmethod
    def build(
        cls, name: str, parameters: ActiveRequestParameters, _context: BuildContext
    ) -> "ActiveRequestScorer":
        """Factory for the registry."""
        return cls(name, parameters.idle_threshold, parameters.max_busy_score)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        slots = cycle.slots()
        counts = slots.read(cycle.ledger.requests)
        high = max(counts, default=0)
        if high <= self._idle_threshold:
            return SegmentColumn(slots, 1.0)
        # Endpoints are many, distinct counts few.
        score_of = {count: self._score_of(count, high) for count in set(counts)}
        return [score_of[count] for count in counts]

    def _score_of(self, count: int, high: int) -> float:
        if count <= self._idle_threshold:
            return 1.0
        return (high - count) / high * self._max_busy_score
