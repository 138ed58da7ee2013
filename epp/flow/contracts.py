"""What flow control asks of a saturation detector."""

from typing import ClassVar, Protocol

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint

__all__ = ["SaturationDetector"]


class SaturationDetector(Protocol):
    """Says how full endpoints are. Every detector is a filter, too, for profiles that name it."""

    type: ClassVar[str]
    name: str

    def saturation(self, endpoints: tuple[Endpoint, ...], ledger: Ledger, now: float) -> float | None:
        """From 0 (idle) to 1 (nobody has room) and above; None when nothing is known."""
        ...
