"""Reads one response after another from bytes, without a socket.

httptools (llhttp) does the syntax, strictly: folded headers, control characters, bare line feeds, double or
contradicting lengths are refused. This adds what llhttp leaves to its user: limits, interim responses,
responses to HEAD, and what the end of the input means.
"""

import httptools

from epp.http.types import Headers, ResponseHead, UpstreamSettings

__all__ = ["ResponseReader"]

_STATUS_LINE_BYTES = 17  # "HTTP/1.1 200 ", its line end, and the empty line after the headers
_HEADER_LINE_BYTES = 4  # colon, space, line end
_STATUSES = range(100, 600)  # RFC 9110, section 15: others are invalid
_SYNTAX_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class ResponseReader:
    """The responses of one connection.

    `begin` once a request, then `feed` with whatever arrives; after each look at `head`, `take_body()`,
    `complete`, `error`, in this order. The outcome does not depend on how the bytes are cut.

    Attributes:
        started: a byte came since `begin`.
        head: the final head, None until it is complete and within the limits.
        upgraded: the head has status 101, and everything after it is bytes of another protocol.
        complete: the whole response came.
        error: what is wrong, None while nothing is. Once set, the connection is of no use.
    """

    __slots__ = (
        "_barren_bytes", "_body", "_codings", "_excess", "_framed", "_head_bytes", "_head_only", "_headers",
        "_interim", "_interims", "_limits", "_may_upgrade", "_parser", "_raw", "_reason", "complete", "error",
        "head", "started", "upgraded",
    )  # fmt: skip

    def __init__(self, limits: UpstreamSettings) -> None:
        self._limits = limits
        self._parser: httptools.HttpResponseParser | None = None
        self._body: list[bytes] = []
        self.begin(head_only=False)

    def begin(self, *, head_only: bool, upgrade: bool = False) -> None:
        """Expect the response to the next request; `head_only` for HEAD, whose response has no body.

        `upgrade`: the request asked for another protocol.
        """
        self._head_only = head_only
        self._may_upgrade = upgrade
        self.upgraded = self._raw = False
        self._interims = 0
        self._head_bytes = 0
        self._barren_bytes = 0
        self._body.clear()
        self.started = False
        self.head: ResponseHead | None = None
        self.complete = False
        self.error: str | None = None
        self._excess = False
        self._begin_head()

    def _begin_head(self) -> None:
        self._headers: Headers = []
        self._reason = b""
        self._framed = False
        self._codings: list[bytes] = []
        self._interim = False

    def feed(self, data: bytes) -> None:
        """Take in bytes from the connection; never raises."""
        self.started = True
        if self._raw:
            self._body.append(data)
            return
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        try:
            self._parser.feed_data(data)
        except _SYNTAX_ERRORS as error:
            if self.upgraded and isinstance(error, httptools.HttpParserUpgrade):
                self._begin_raw(data[error.args[0] :])
            elif self.complete:
                self._excess = True
            else:
                self._refuse(str(error) or "unreadable response")
        if not self._body and not self.complete:
            self._count_barren(len(data))

    def _begin_raw(self, rest: bytes) -> None:
        """The response ends with its head, the other protocol begins with `rest`."""
        self._raw = True
        self._framed = False
        if rest:
            self._body.append(rest)

    def take_body(self) -> bytes:
        """Bytes of the body that came since the last call."""
        pieces = self._body
        if not pieces:
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body

    @property
    def reusable(self) -> bool:
        """The connection can carry another request. Not after HEAD: llhttp still waits for a body then."""
        if self.head is None or self._excess or self._head_only or self.upgraded:
            return False
        return self.complete and self.head.keep_alive

    def end_of_input(self) -> bool:
        """The endpoint closed its side; True if that completes the response (RFC 9112, 6.3, rule 8)."""
        if self.head is not None and self.error is None and not self._framed:
            self.complete = True
        return self.complete

    def discard(self) -> None:
        """Break the cycle between this object and its parser once the connection is gone."""
        self._parser = None

    def _refuse(self, detail: str) -> None:
        if self.error is None:
            self.error = detail

    def _count_barren(self, size: int) -> None:
        """Bound what may come without a byte of a body: a head, chunk extensions, trailers."""
        self._barren_bytes += size
        if self._barren_bytes > self._limits.max_head_bytes:
            what = "response head" if self.head is None else "trailers or chunk extensions"
            self._refuse(f"over {self._limits.max_head_bytes} bytes of {what}")

    # Called by httptools. An exception here would come out of feed_data as a syntax error: none is raised.

    def on_message_begin(self) -> None:
        if self.complete:
            self._excess = True

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is not None:
            return  # a trailer, or the head of an unasked response
        self._headers.append((name, value))
        self._head_bytes += len(name) + len(value) + _HEADER_LINE_BYTES
        length = len(name)
        if length == 14 and name.lower() == b"content-length":
            self._framed = True
        elif length == 17 and name.lower() == b"transfer-encoding":
            self._framed = True
            self._codings.append(value.strip().lower())

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self.complete or parser is None:
            return
        status = parser.get_status_code()
        version = parser.get_http_version()
        self._head_bytes += _STATUS_LINE_BYTES + len(self._reason)
        self._check_head(status, version, upgrades=self._may_upgrade and parser.should_upgrade())
        if self.error is not None:
            return
        if status < 200 and status != 101:
            self._interim = True
            return
        self.upgraded = status == 101
        self._barren_bytes = 0
        self.head = ResponseHead(status, self._reason, self._headers, version, parser.should_keep_alive())
        self.complete = self._head_only

    def _check_head(self, status: int, version: str, *, upgrades: bool) -> None:
        if not version.startswith("1."):
            self._refuse(f"HTTP version {version}")
        elif status not in _STATUSES or (status == 101 and not upgrades):
            self._refuse(f"status {status}")
        elif self._head_bytes > self._limits.max_head_bytes:
            self._refuse(f"over {self._limits.max_head_bytes} bytes of response head")
        elif len(self._headers) > self._limits.max_headers:
            self._refuse(f"over {self._limits.max_headers} response headers")
        elif self._codings and self._codings != [b"chunked"]:
            self._refuse("transfer coding other than chunked")

    def on_body(self, data: bytes) -> None:
        if self.complete:
            self._excess = True
        elif self.error is None:
            self._barren_bytes = 0
            self._body.append(data)

    def on_message_complete(self) -> None:
        if not self._interim:
            self.complete = self.error is None and not self.upgraded
            return
        self._interims += 1
        if self._interims > self._limits.max_informational:
            self._refuse(f"over {self._limits.max_informational} interim responses")
        self._begin_head()
