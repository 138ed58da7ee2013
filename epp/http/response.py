"""Reads one response after another from bytes, without a socket.

httptools (llhttp) does the syntax, strictly: folded headers, control characters, bare line feeds, double or
contradicting lengths are refused. This adds what llhttp leaves to its user: limits, interim responses,
responses to HEAD, and what the end of the input means.
"""

from collections.abc import Callable
from operator import itemgetter

import httptools

from epp.http.types import Headers, ResponseHead, UpstreamSettings

__all__ = ["ResponseReader"]

_STATUS_LINE_BYTES = 17  # "HTTP/1.1 200 ", its line end, and the empty line after the headers
_HEADER_LINE_BYTES = 4  # colon, space, line end
_FINAL_STATUSES = range(200, 600)  # RFC 9110, section 15: those above are invalid
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_SYNTAX_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)

_name_of = itemgetter(0)
_lower = bytes.lower


class ResponseReader:
    """The responses of one connection.

    `begin` once a request, then `feed` with whatever arrives; after each look at `head`, `take_body()`,
    `complete`, `error`, in this order. The outcome does not depend on how the bytes are cut.

    Attributes:
        may_upgrade: the request asked for another protocol.
        head: the final head, None until it is complete and within the limits.
        complete: the whole response came.
        reusable: it is complete, and the connection can carry another request. Not after HEAD: llhttp still
            waits for a body then.
        error: what is wrong, None while nothing is. Once set, the connection is of no use.
    """

    __slots__ = (
        "_barren_bytes", "_body", "_came_bytes", "_head_only", "_headers", "_interims", "_limits", "_parser",
        "_reason", "_take", "complete", "error", "head", "may_upgrade", "reusable",
    )  # fmt: skip

    def __init__(self, limits: UpstreamSettings) -> None:
        self._limits = limits
        self._parser: httptools.HttpResponseParser | None = None
        self._take: Callable[[bytes], object] | None = None
        self._headers: Headers = []
        self._reason = b""
        self.error: str | None = None
        self.begin(head_only=False)

    def begin(self, *, head_only: bool, upgrade: bool = False) -> None:
        """Expect the response to the next request; `head_only` for HEAD, whose response has no body.

        `upgrade`: the request asked for another protocol.
        """
        self._head_only = head_only
        self.may_upgrade = upgrade
        self._interims: tuple[int, ...] = ()  # bytes of the head of each
        self._came_bytes = 0  # up to the end of the piece that ends the head
        self._barren_bytes = 0
        self._body: list[bytes] = []
        self.head: ResponseHead | None = None
        self.complete = self.reusable = False

    @property
    def started(self) -> bool:
        """A byte came since `begin`."""
        return self._came_bytes > 0

    @property
    def upgraded(self) -> bool:
        """The head has status 101, and everything after it is bytes of another protocol."""
        return self.head is not None and self.head.status == 101

    def feed(self, data: bytes) -> None:
        """Take in bytes from the connection; never raises."""
        if self.head is None:
            self._came_bytes += len(data)
        take = self._take or self._begin_parsing()
        try:
            take(data)
        except _SYNTAX_ERRORS as error:
            self._stop_parsing(data, error)
        if not self._body and not self.complete:
            self._count_barren(len(data))

    def _begin_parsing(self) -> Callable[[bytes], object]:
        self._parser = parser = httptools.HttpResponseParser(self)
        self._take = take = parser.feed_data
        return take

    def _stop_parsing(self, data: bytes, error: Exception) -> None:
        if self.upgraded and isinstance(error, httptools.HttpParserUpgrade):
            # The response ends with its head, the other protocol begins.
            rest = data[error.args[0] :]
            if rest:
                self._body.append(rest)
            self._take = self._body.append
        elif self.complete:
            self.reusable = False
        else:
            self._refuse(str(error) or "unreadable response")

    def take_body(self) -> bytes:
        """Bytes of the body that came since the last call."""
        pieces = self._body
        if not pieces:
            return b""
        body = b"".join(pieces)  # which does not copy a single one
        pieces.clear()
        return body

    def end_of_input(self) -> bool:
        """The endpoint closed its side; True if that completes the response (RFC 9112, 6.3, rule 8)."""
        head = self.head
        if head is not None and self.error is None:
            framed = not _FRAMING.isdisjoint(map(_lower, map(_name_of, head.headers)))
            self.complete = self.complete or self.upgraded or not framed
        return self.complete

    def discard(self) -> None:
        """Break the cycle between this object and its parser once the connection is gone."""
        self._parser = self._take = None

    def _refuse(self, detail: str) -> None:
        if self.error is None:
            self.error = detail

    def _count_barren(self, size: int) -> None:
        """Bound what may come without a byte of a body: a head, chunk extensions, trailers."""
        limit = self._limits.max_head_bytes
        if self.head is None:
            if self._came_bytes > limit:
                self._refuse(f"over {limit} bytes of response head")
            return
        self._barren_bytes += size
        if self._barren_bytes > limit:
            self._refuse(f"over {limit} bytes of trailers or chunk extensions")

    # Called by httptools. An exception here would come out of feed_data as a syntax error: none is raised.

    def on_message_begin(self) -> None:
        if self.complete:
            self.reusable = False
        self._headers = []
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is None:  # not a trailer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self.complete or self.error is not None or parser is None:
            return
        status, version = parser.get_status_code(), parser.get_http_version()
        fault = self._fault(status, version, parser)
        if fault is not None:
            self.error = fault
        elif status >= 200 or status == 101:
            keep_alive = parser.should_keep_alive()
            self.head = ResponseHead(status, self._reason, self._headers, version, keep_alive)
            self.complete = self._head_only

    def _fault(self, status: int, version: str, parser: httptools.HttpResponseParser) -> str | None:
        """What is wrong with the head, None if nothing is."""
        headers, limits = self._headers, self._limits
        if version not in {"1.1", "1.0"}:
            return f"HTTP version {version}"
        if status not in _FINAL_STATUSES and not self._may_come_before(status, parser):
            return f"status {status}"
        # No head counts for more than twice the bytes that came: most need not be counted.
        limit = limits.max_head_bytes
        if 2 * self._came_bytes > limit and sum(self._interims, self._head_bytes()) > limit:
            return f"over {limit} bytes of response head"
        if len(headers) > limits.max_headers:
            return f"over {limits.max_headers} response headers"
        if b"transfer-encoding" in map(_lower, map(_name_of, headers)) and not _is_chunked(headers):
            return "transfer coding other than chunked"
        return None

    def _may_come_before(self, status: int, parser: httptools.HttpResponseParser) -> bool:
        """Whether it is the status of an interim response, or of a switch that was asked for."""
        if status == 101:
            return self.may_upgrade and parser.should_upgrade()
        return 100 <= status < 200

    def _head_bytes(self) -> int:
        lines = sum(len(name) + len(value) + _HEADER_LINE_BYTES for name, value in self._headers)
        return _STATUS_LINE_BYTES + len(self._reason) + lines

    def on_body(self, data: bytes) -> None:
        if self.complete:
            self.reusable = False
        elif self.error is None:
            self._barren_bytes = 0
            self._body.append(data)

    def on_message_complete(self) -> None:
        head = self.head
        if self.complete or self.error is not None:
            return
        if head is None:
            self._interims += (self._head_bytes(),)
            if len(self._interims) > self._limits.max_informational:
                self._refuse(f"over {self._limits.max_informational} interim responses")
        elif head.status != 101:
            self.complete = True
            self.reusable = head.keep_alive


def _is_chunked(headers: Headers) -> bool:
    codings = [value.strip().lower() for name, value in headers if name.lower() == b"transfer-encoding"]
    return codings == [b"chunked"]
