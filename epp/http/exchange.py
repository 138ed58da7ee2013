"""One request on its connection, as its sender sees it."""

from typing import Protocol

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


class Exchange:
    """One request on its connection; the handle that `UpstreamPool.send` returns."""

    __slots__ = ("_connection", "aborted", "reused", "sink", "started_at", "written")

    def __init__(self, sink: ResponseSink, started_at: float, *, reused: bool) -> None:
        self.sink = sink
        self.started_at = started_at
        self.reused = reused
        self.written = False
        self.aborted = False
        self._connection: Steered | None = None

    def attach(self, connection: Steered | None) -> None:
        """Steer `connection` from here on; None: the exchange is over, the handle does nothing any more."""
        self._connection = connection

    def pause(self) -> None:
        """Stop reading from the endpoint; what has been read is still delivered."""
        if self._connection is not None:
            self._connection.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._connection is not None:
            self._connection.resume_reading()

    def abort(self) -> None:
        """Close the connection at once; the sink is not called any more."""
        self.aborted = True
        if self._connection is not None:
            self._connection.abort()
