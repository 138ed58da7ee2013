"""The pool."""

import asyncio
from dataclasses import dataclass

from epp.http.types import Origin, ResponseSink, UpstreamExchange, UpstreamRequest, UpstreamSettings

__all__ = ["PoolStats", "UpstreamPool"]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Connections at one moment, and totals since the pool was made."""

    idle: int
    active: int
    opened_total: int
    reused_total: int


class UpstreamPool:
    """See the package."""

    def __init__(self, settings: UpstreamSettings, loop: asyncio.AbstractEventLoop | None = None) -> None:
        raise NotImplementedError

    def send(
        self, origin: Origin, request: UpstreamRequest, sink: ResponseSink, *, fresh: bool = False
    ) -> UpstreamExchange:
        """Start an exchange; `fresh` uses no pooled connection. Errors come through the sink, never from here."""
        raise NotImplementedError

    def stats(self) -> PoolStats:
        """Counts."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection; exchanges under way fail."""
        raise NotImplementedError
