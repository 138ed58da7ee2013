"""How a relayed request ends, for the books and for the client."""

from dataclasses import dataclass
from typing import Final

from epp.director import EndReason
from epp.errors import (
    ClientDisconnectedError,
    EppError,
    FirstByteTimeoutError,
    RequestTimeoutError,
    ShuttingDownError,
)

__all__ = ["CLIENT_GONE", "COMPLETE", "End", "ended_by"]


@dataclass(frozen=True, slots=True)
class End:
    """How a request ended. `error` is what the client is told, if nothing was sent to it before."""

    reason: EndReason
    error: EppError | None = None


COMPLETE: Final = End(EndReason.COMPLETE)
CLIENT_GONE: Final = End(EndReason.CLIENT_DISCONNECTED)


def ended_by(error: EppError) -> End:
    """The end of a request that the router itself answers."""
    if isinstance(error, ClientDisconnectedError):
        return CLIENT_GONE
    if isinstance(error, FirstByteTimeoutError | RequestTimeoutError):
        return End(EndReason.TIMEOUT, error)
    return End(EndReason.SHUTDOWN if isinstance(error, ShuttingDownError) else EndReason.REJECTED, error)
