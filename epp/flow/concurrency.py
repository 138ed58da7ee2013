"""concurrency-detector: saturation by this router's own requests in flight."""

from dataclasses import dataclass
from typing import ClassVar

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Cycle, Volatility
from epp.scheduling.registry import param

__all__ = ["ConcurrencyDetector", "ConcurrencyDetectorParameters"]


@dataclass(frozen=True, slots=True)
class ConcurrencyDetectorParameters:
    """Parameters of concurrency-detector."""

    max_requests: int = param(
        100, key="maxConcurrency", doc="Requests in flight at which an endpoint is saturated.", above=0
    )
    max_tokens: int = param(
        1_000_000,
        key="maxTokenConcurrency",
        doc="Uncached prompt tokens in flight at which it is.",
        above=0,
    )
    mode: str = param(
        "requests",
        key="concurrencyMode",
        doc="What is counted; hybrid takes the fuller of both.",
        choices=("requests", "tokens", "hybrid"),
    )
    headroom: float = param(
        0.0,
        key="headroom",
        doc="As a filter: how far above the maximum an endpoint may be, as a share of it.",
        minimum=0,
    )
    in_flight_load_producer_name: str | None = param(
        None, key="inFlightLoadProducerName", doc="Ignored: there is one ledger of requests in flight."
    )


class ConcurrencyDetector:
    """Saturation from the ledger: exact at the moment of the question, and never missing.

    Formula: requests (or uncached prompt tokens) in flight at all endpoints / (endpoints * maximum); hybrid:
    the larger of both (as the Go picker). None without endpoints.
    """

    type: ClassVar[str] = "concurrency-detector"
    volatility: Volatility = "request"

    def __init__(
        self,
        name: str,
        *,
        max_requests: int | None = 100,
        max_tokens: int | None = None,
        headroom: float = 0.0,
    ) -> None:
        """None: not counted."""
        self.name = name
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self._limit = 1.0 + headroom

    @classmethod
    def build(
        cls, name: str, parameters: ConcurrencyDetectorParameters, _context: BuildContext
    ) -> "ConcurrencyDetector":
        """Factory for the registry."""
        return cls(
            name,
            max_requests=None if parameters.mode == "tokens" else parameters.max_requests,
            max_tokens=None if parameters.mode == "requests" else parameters.max_tokens,
            headroom=parameters.headroom,
        )

    def saturation(self, endpoints: tuple[Endpoint, ...], ledger: Ledger, _now: float) -> float | None:
        """From 0 (idle) to 1 (as much as all may have) and above; None without endpoints."""
        if not endpoints:
            return None
        slots = [endpoint.slot for endpoint in endpoints]
        return max(
            sum(column[slot] for slot in slots) / (len(slots) * most)
            for column, most in self._columns(ledger)
        )

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates below the maximum and the headroom above it; maybe none, which is a 429."""
        slots, kept = cycle.slots(), cycle.candidates
        for column, most in self._columns(cycle.ledger):
            limit = most * self._limit
            if max(slots.read(column), default=0) >= limit:
                kept = tuple(e for e in kept if column[e.slot] < limit)
        return kept

    def _columns(self, ledger: Ledger) -> list[tuple[list[int], int]]:
        counted = ((ledger.requests, self._max_requests), (ledger.tokens, self._max_tokens))
        return [(column, most) for column, most in counted if most is not None]
