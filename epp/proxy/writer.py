"""Writes one answer to a client of HTTP/1.1."""

from typing import Final, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from epp.http import Headers
from epp.proxy.heads import BODILESS_STATUSES

__all__ = ["AnswerWriter", "Output"]

_LAST_CHUNK: Final = b"0\r\n\r\n"
_CLOSE: Final = (b"connection", b"close")
_CHUNKED: Final = (b"transfer-encoding", b"chunked")

_line_of = b"%b: %b\r\n".__mod__


class Output(Protocol):
    """The part of a transport that takes bytes."""

    def write(self, data: bytes, /) -> None:
        """Send `data`, now or when the client takes it."""
        ...


class AnswerWriter:
    """Frames a body by its announced length or in chunks.

    The head goes out together with the first bytes of the body, or with its end.
    """

    __slots__ = ("_chunked", "_head", "_output")

    def __init__(self, output: Output, status: int, headers: Headers, *, close: bool) -> None:
        """`headers` are all but what frames the body; `close` announces the end of the connection.

        Raises:
            ValueError: a header holds a line break.
        """
        self._output = output
        self._chunked = b"content-length" not in dict(headers) and status not in BODILESS_STATUSES
        if close:
            headers = [*headers, _CLOSE]
        if self._chunked:
            headers = [*headers, _CHUNKED]
        fields = b"".join(map(_line_of, headers))
        if fields.count(b"\n") != len(headers) or fields.count(b"\r") != len(headers):
            raise ValueError("a response header holds a line break")
        self._head = STATUS_LINE[status] + fields + b"\r\n"

    def write(self, data: bytes) -> None:
        """Send bytes of the body, not empty."""
        head, self._head = self._head, b""
        if self._chunked:
            self._output.write(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        elif head:
            self._output.write(head + data)
        else:
            self._output.write(data)

    def write_own(self, data: bytes) -> None:
        """The same, for bytes that are not the endpoint's."""
        self.write(data)

    def end(self) -> None:
        """The body is complete."""
        rest = self._head + _LAST_CHUNK if self._chunked else self._head
        self._head = b""
        if rest:
            self._output.write(rest)
