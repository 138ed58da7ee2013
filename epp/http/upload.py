"""A request's body that is written while it comes in."""

import asyncio
from collections.abc import Callable

from epp.http.types import BodyStream

__all__ = ["Upload"]


class Upload:
    """Frames the body of one exchange, and hands the transport's back-pressure to its source.

    Attributes:
        complete: the whole body was written.
    """

    __slots__ = ("_chunked", "_on_progress", "_stream", "_transport", "complete")

    def __init__(
        self,
        transport: asyncio.Transport,
        stream: BodyStream,
        on_progress: Callable[[], None],
        *,
        chunked: bool,
        paused: bool,
    ) -> None:
        """`paused`: the transport has more than it should already."""
        self._transport: asyncio.Transport | None = transport
        self._stream = stream
        self._on_progress = on_progress
        self._chunked = chunked
        self.complete = False
        stream.begin(self)
        if paused:
            stream.pause()

    def write(self, data: bytes) -> None:
        """The next bytes of the body."""
        if self._transport is None or not data:
            return
        self._on_progress()
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._transport.write(data)

    def end(self) -> None:
        """The body is complete."""
        if self._transport is None or self.complete:
            return
        self._on_progress()
        self.complete = True
        if self._chunked:
            self._transport.write(b"0\r\n\r\n")

    def pause(self) -> None:
        """The endpoint does not take what there is."""
        if not self.complete:
            self._stream.pause()

    def resume(self) -> None:
        """The endpoint takes more."""
        if not self.complete:
            self._stream.resume()

    def stop(self) -> None:
        """The exchange is over."""
        self._transport = None
        self._stream.stop()
