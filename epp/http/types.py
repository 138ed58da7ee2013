"""The words between our HTTP/1.1 client and whoever drives it."""

import enum
import ssl
from dataclasses import dataclass
from typing import Protocol

import msgspec

__all__ = [
    "BodyStream", "BodyWriter", "ErrorKind", "Origin", "ResponseHead", "ResponseSink", "UpstreamExchange",
    "UpstreamFailure", "UpstreamRequest", "UpstreamSettings",
]  # fmt: skip

Headers = list[tuple[bytes, bytes]]


class Origin(msgspec.Struct, frozen=True):
    """Where to connect. `scheme` is "http" or "https", `host` is without brackets, also for IPv6."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> bytes:
        """`host:port` for the Host header, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode("ascii")


class BodyWriter(Protocol):
    """Takes a request's body; once the exchange is over its methods do nothing."""

    def write(self, data: bytes) -> None:
        """The next bytes of the body."""
        ...

    def end(self) -> None:
        """The body is complete."""
        ...


class BodyStream(Protocol):
    """A request's body that is not here yet.

    `begin` is called when the head has been written, at once or never; between `pause` and `resume` nothing
    should be written, since the endpoint does not take what there is; `stop` says that the exchange is over.
    If the connection could not be made, none of them is called, and the stream may be sent again.
    """

    @property
    def length(self) -> int | None:
        """Bytes in all; None when nobody knows, and the body goes out in chunks."""
        ...

    def begin(self, writer: BodyWriter) -> None:
        """Write to `writer` from here on."""
        ...

    def pause(self) -> None:
        """Stop writing for a while."""
        ...

    def resume(self) -> None:
        """Write again."""
        ...

    def stop(self) -> None:
        """Write no more."""
        ...


class UpstreamRequest(msgspec.Struct, frozen=True):
    """One request, ready to be written.

    `target` is path and query as bytes of the request line. `headers` are complete but for host,
    content-length, transfer-encoding and connection, which belong to the client.

    With `upgrade` the headers ask for another protocol, `connection` among them. If the endpoint agrees, the
    head of its response has status 101 and what follows are the bytes of that protocol: what comes is given
    to the sink as a body, `body` is a stream that begins then, and no timeout runs any more.
    """

    method: bytes
    target: bytes
    headers: Headers
    body: bytes | bytearray | BodyStream
    upgrade: bool = False


class ResponseHead(msgspec.Struct, frozen=True):
    """A final response head.

    Attributes:
        status: 200..599, or 101 for a request that asked for it.
        reason: the reason phrase, may be empty.
        headers: names and values as the endpoint sent them, in its order.
        http_version: "1.1" or "1.0".
        keep_alive: the endpoint leaves the connection open after this response.
    """

    status: int
    reason: bytes
    headers: Headers
    http_version: str
    keep_alive: bool


class ErrorKind(enum.StrEnum):
    """How an exchange failed."""

    CONNECT = "connect"  # refused, unreachable, unknown name, failed TLS handshake
    CONNECT_TIMEOUT = "connect-timeout"
    CLOSED_REUSED = "closed-reused"  # a pooled connection closed with no byte of an answer
    BROKEN = "broken"  # reset or ended before the head was complete
    PROTOCOL = "protocol"  # what came before the end of the head is not HTTP as we accept it
    ABORTED_AFTER_HEAD = "aborted-after-head"  # the body was cut short, or its framing is broken
    IDLE_TIMEOUT = "idle-timeout"  # no byte for too long, after the head
    FIRST_BYTE_TIMEOUT = "first-byte-timeout"  # no complete head in time
    TOTAL_TIMEOUT = "total-timeout"
    POOL_EXHAUSTED = "pool-exhausted"  # our own limit, no descriptors or ports left, or the pool is closed


class UpstreamFailure(msgspec.Struct, frozen=True):
    """Why an exchange failed. `written`: a byte of the request may have reached the endpoint."""

    kind: ErrorKind
    detail: str
    written: bool


class ResponseSink(Protocol):
    """Receives one response: `on_head`, any number of `on_data`, then one of `on_end` and `on_failure`.

    `on_failure` may also come before `on_head`. Nothing comes after the last one, nothing at all after the
    exchange was aborted, and nothing before `send` has returned. An exception out of a callback ends the
    exchange: it goes to the loop's exception handler, the connection is closed and `on_failure` called.
    """

    def on_head(self, head: ResponseHead) -> None:
        """The final head came."""
        ...

    def on_data(self, data: bytes) -> None:
        """Bytes of the body, without its transfer coding; never empty."""
        ...

    def on_end(self) -> None:
        """The response is complete."""
        ...

    def on_failure(self, failure: UpstreamFailure) -> None:
        """The response will not be complete."""
        ...


class UpstreamExchange(Protocol):
    """The handle of one request that was sent."""

    @property
    def reused(self) -> bool:
        """The request went out on a connection that had served another one."""
        ...

    def pause(self) -> None:
        """Stop reading from the endpoint; what has been read is still delivered."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def abort(self) -> None:
        """Close the connection at once; the sink is not called any more."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Limits of the client; a timeout of 0 is none.

    Attributes:
        connect_timeout_s: name look-up, TCP and TLS together.
        first_byte_timeout_s: from writing the request to the complete head, and again from the head to the
            first byte of the body (engines send the head before the prefill), where it counts as
            IDLE_TIMEOUT. Generous: a prefill takes minutes. A streamed body that waits for its source stops
            the time, one that waits for the endpoint does not.
        idle_timeout_s: between two bytes of the body; does not run while the exchange is paused.
        total_timeout_s: the whole exchange from `send` on.
        keep_alive_s: how long an idle connection may be reused; below the 5 s after which vLLM closes it.
        max_connections_per_origin: 0 is no limit. Beyond it an exchange fails at once with POOL_EXHAUSTED:
            waiting belongs to flow control, where it is visible.
        max_head_bytes, max_headers: of a response.
        max_informational: 1xx heads that may precede a response.
        ssl_context: for `https` origins; None is the system's trust store.
        server_name: name that certificates of `https` origins must be for; None is each origin's host.
    """

    connect_timeout_s: float = 5.0
    first_byte_timeout_s: float = 600.0
    idle_timeout_s: float = 300.0
    total_timeout_s: float = 0.0
    keep_alive_s: float = 3.0
    max_connections_per_origin: int = 0
    max_head_bytes: int = 65_536
    max_headers: int = 256
    max_informational: int = 8
    ssl_context: ssl.SSLContext | None = None
    server_name: str | None = None
