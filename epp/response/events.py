"""Server-sent events, as far as usage needs them (WHATWG HTML §9.2.6, event stream interpretation)."""

from typing import Final

from epp.response.types import Usage
from epp.response.usage import merge_usage, usage_in_document

__all__ = ["EventStreamReader"]

_KEY: Final = b'"usage"'
_LINE_ENDS: Final = (b"\n", b"\r\n", b"\r")


class EventStreamReader:
    """Finds usage in a stream of events that arrives in any pieces.

    A piece that begins and ends between events and holds no usage, as nearly every piece of a stream of
    tokens does, costs two searches. An event of more than `limit_bytes` is passed over.
    """

    __slots__ = ("_after_cr", "_between_events", "_data", "_data_bytes", "_limit_bytes", "_line", "_usage")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._between_events = True
        self._after_cr = False  # an LF that follows belongs to the same line end
        self._line = bytearray()  # the begun line
        self._data: list[bytes] = []  # the data lines of the begun event
        self._data_bytes = 0
        self._usage: Usage | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        if self._between_events and chunk.endswith(b"\n\n") and _KEY not in chunk:
            return
        if not chunk:
            return
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        for piece in chunk.splitlines(keepends=True):
            self._take(piece)
        self._after_cr = chunk.endswith(b"\r")
        self._between_events = not (self._line or self._data_bytes or self._after_cr)

    def finish(self) -> Usage | None:
        """The stream has ended; its last event counts even without the blank line that should end it."""
        self._end_line()
        self._end_event()
        return self._usage

    def _take(self, piece: bytes) -> None:
        """Take a line or a part of one, with its line end if that has come."""
        if piece in _LINE_ENDS and not self._line:
            self._end_event()
            return
        if self._data_bytes + len(self._line) + len(piece) > self._limit_bytes:
            self._pass_over_event()
        else:
            self._line += piece
        if piece.endswith(_LINE_ENDS):
            self._end_line()

    def _pass_over_event(self) -> None:
        """A comment stands for this line, and no other of the event finds room."""
        self._line[:] = b":"
        self._data.clear()
        self._data_bytes = self._limit_bytes

    def _end_line(self) -> None:
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            self._data_bytes += len(line)

    def _end_event(self) -> None:
        document = b"\n".join(self._data)
        self._data.clear()
        self._data_bytes = 0
        if _KEY in document:
            self._usage = merge_usage(self._usage, usage_in_document(document))
