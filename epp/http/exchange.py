"""One request on its connection, as its sender sees it."""

from typing import Protocol

import msgspec

from epp.http.types import ResponseSink

__all__ = ["Exchange", "Steered"]


class Steered(Protocol):
    """The part of a connection that its exchange steers."""

    def pause_reading(self) -> None:
        """Stop reading."""
        ...

    def resume_reading(self) -> None:
        """Read again."""
        ...

    def abort(self) -> None:
        """Drop the exchange without a word to its sink, and close."""
        ...


class Exchange(msgspec.Struct, eq=False):
    """One request on its connection; the handle that `UpstreamPool.send` returns.

    Attributes:
        sink: receives the response.
        started_at: time of the loop.
        reused: the connection had served another request.
        written: a byte of the request may have reached the endpoint.
        aborted: the sink is not called any more.
        connection: what the handle steers; None: the exchange is over, the handle does nothing any more.
    """

    sink: ResponseSink
    started_at: float
    reused: bool
    written: bool = False
    aborted: bool = False
    connection: Steered | None = None

    def pause(self) -> None:
        """Stop reading from the endpoint; what has been read is still delivered."""
        if self.connection is not None:
            self.connection.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self.connection is not None:
            self.connection.resume_reading()

    def abort(self) -> None:
        """Close the connection at once; the sink is not called any more."""
        self.aborted = True
        if self.connection is not None:
            self.connection.abort()
