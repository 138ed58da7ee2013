"""One connection to an endpoint: writes a request, reads its response, keeps its deadlines."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol, cast

from epp.http.exchange import Exchange
from epp.http.response import ResponseReader
from epp.http.types import BodyStream, ErrorKind, Origin, UpstreamFailure, UpstreamSettings
from epp.http.upload import Upload

__all__ = ["Connection", "ConnectionOwner", "Exchange", "Timers"]

_JOIN_BYTES = 16_384  # up to here one joined write is cheaper than two
_SLICE_BYTES = 262_144  # the most that a transport has to copy of a large body at a time
_PROBES = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))  # not all systems have all
_NOTHING = memoryview(b"")


class Timers(Protocol):
    """The part of an event loop that deadlines need."""

    def time(self) -> float:
        """Seconds of the loop's clock."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Run `callback` in `delay` seconds."""
        ...

    def call_exception_handler(self, context: dict[str, Any], /) -> None:
        """Report an exception that nobody awaits."""
        ...


class ConnectionOwner(Protocol):
    """The pool, as its connections see it."""

    def on_idle(self, connection: "Connection") -> None:
        """The exchange ended and the connection can carry another one."""
        ...

    def on_closed(self, connection: "Connection") -> None:
        """The connection is gone; called exactly once."""
        ...


class Connection(asyncio.Protocol):
    """One TCP or TLS connection, carrying one exchange at a time.

    The sink is called last in every step, so that it may send the next request from within its callbacks.
    One timer serves every deadline of every exchange: it fires no later than the earliest deadline could be,
    looks what is due and is armed again, so that neither a chunk nor a request pays for a timer of its own.
    """

    __slots__ = (
        "_body", "_body_began", "_closed", "_exchange", "_head", "_head_told", "_owner", "_paused",
        "_period_s", "_reader", "_settings", "_since", "_timer", "_timers", "_transport", "_unsent",
        "_upgrade", "_upload", "_write_paused", "connecting", "idle_since", "origin",
    )  # fmt: skip

    def __init__(
        self, owner: ConnectionOwner, origin: Origin, settings: UpstreamSettings, timers: Timers
    ) -> None:
        self.origin = origin
        self.connecting: asyncio.Task[None] | None = None
        self.idle_since = 0.0
        self._owner = owner
        self._settings = settings
        self._timers = timers
        self._timer: asyncio.TimerHandle | None = None
        self._period_s = _shortest_timeout_s(settings)
        self._reader = ResponseReader(settings)
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._exchange: Exchange | None = None
        self._head = b""
        self._body: bytes | bytearray | BodyStream = b""
        self._unsent = _NOTHING
        self._upload: Upload | None = None
        self._upgrade = False
        self._write_paused = False
        self._paused = False
        self._head_told = self._body_began = False
        self._since = 0.0

    # What the pool and the exchange call.

    def start(
        self,
        exchange: Exchange,
        head: bytes,
        body: bytes | bytearray | BodyStream,
        *,
        head_only: bool,
        upgrade: bool = False,
    ) -> None:
        """Send a request, as soon as the connection is made if it is not yet; `head_only` for HEAD.

        `upgrade`: `body` is a stream that begins with a 101.
        """
        self._exchange = exchange
        self._upgrade = upgrade
        exchange.attach(self)
        self._reader.begin(head_only=head_only, upgrade=upgrade)
        self._head, self._body = head, body
        self._head_told = self._body_began = False
        if self._timer is None and self._period_s > 0:
            self._timer = self._timers.call_later(self._period_s, self._on_timer)
        if self._transport is not None:
            self._write_request(self._transport, exchange)

    def is_open(self) -> bool:
        """The transport can still be written to."""
        return self._transport is not None and not self._transport.is_closing()

    def connect_failed(self, kind: ErrorKind, detail: str) -> None:
        """The connection was not made."""
        self._note_closed()
        self._fail(kind, detail)

    def shut_down(self, kind: ErrorKind, detail: str) -> None:
        """Fail the exchange if there is one, and close."""
        self._close()
        self._fail(ErrorKind.ABORTED_AFTER_HEAD if self._head_told else kind, detail)

    def pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._since = self._timers.time()
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def abort(self) -> None:
        """Drop the exchange without a word to its sink, and close."""
        self._drop_exchange()
        self._close()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        _enable_probes(transport)
        exchange = self._exchange
        if exchange is None:
            self._transport.abort()
            return
        if self._paused:
            self._transport.pause_reading()
        self._write_request(self._transport, exchange)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self._close()  # bytes that nobody asked for
            return
        reader = self._reader
        reader.feed(data)
        self._since = self._timers.time()
        try:
            self._deliver(exchange)
        except Exception as error:  # noqa: BLE001  a fault of the sink must not look like one of the endpoint
            self._report(error)
            self._close_and_fail(ErrorKind.ABORTED_AFTER_HEAD, "the receiver failed", exchange)
            return
        if self._exchange is not exchange:
            return
        if reader.complete:
            self._finish(exchange)
        elif reader.error is not None:
            self._close_and_fail(ErrorKind.PROTOCOL, reader.error, exchange)

    def eof_received(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if self._reader.end_of_input():
            self._finish(exchange)
        else:
            self._lost(exchange, "closed by the endpoint")

    def connection_lost(self, exc: Exception | None) -> None:
        self._note_closed()
        exchange = self._exchange
        if exchange is None:
            return
        if exc is None and self._reader.end_of_input():
            self._finish(exchange)
        else:
            self._lost(exchange, "closed by the endpoint" if exc is None else str(exc))

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._note_progress()
        if self._upload is not None:
            self._upload.resume()
        elif self._unsent and self._transport is not None:
            self._write_body(self._transport)

    # Writing.

    def _write_request(self, transport: asyncio.Transport, exchange: Exchange) -> None:
        exchange.written = True
        self._note_progress()
        head, body = self._head, self._body
        self._head = b""
        if not isinstance(body, (bytes, bytearray)):
            transport.write(head)
            if not self._upgrade:
                self._begin_upload(transport, body)
            return
        self._body = b""
        if len(body) <= _JOIN_BYTES:
            transport.write(head + body)
            return
        transport.write(head)
        self._unsent = memoryview(body)
        self._write_body(transport)

    def _write_body(self, transport: asyncio.Transport) -> None:
        while self._unsent and not self._write_paused and not transport.is_closing():
            piece, self._unsent = self._unsent[:_SLICE_BYTES], self._unsent[_SLICE_BYTES:]
            transport.write(piece)

    def _begin_upload(self, transport: asyncio.Transport, body: BodyStream) -> None:
        chunked = body.length is None and not self._upgrade
        self._upload = Upload(
            transport, body, self._note_progress, chunked=chunked, paused=self._write_paused
        )

    def _note_progress(self) -> None:
        self._since = self._timers.time()

    def _sent_up(self) -> bool:
        """Nothing of the request's body is left to send."""
        return not self._unsent and (self._upload is None or self._upload.complete)

    # Reading.

    def _deliver(self, exchange: Exchange) -> None:
        reader = self._reader
        if not self._head_told and reader.head is not None:
            self._head_told = True
            if (
                reader.upgraded
                and self._transport is not None
                and not isinstance(self._body, (bytes, bytearray))
            ):
                self._begin_upload(self._transport, self._body)
            exchange.sink.on_head(reader.head)
        body = reader.take_body()
        if body and self._exchange is exchange:
            self._body_began = True
            exchange.sink.on_data(body)

    # Endings. Each drops the exchange first, settles the connection, and calls the sink last.

    def _finish(self, exchange: Exchange) -> None:
        reusable = self._reader.reusable and self._sent_up() and self._is_flushed()
        self._drop_exchange()
        if reusable:
            self._owner.on_idle(self)
        else:
            self._close()
        self._tell(exchange.sink.on_end)

    def _lost(self, exchange: Exchange, detail: str) -> None:
        closed_idle = exchange.reused and not self._reader.started
        kind = ErrorKind.CLOSED_REUSED if closed_idle else ErrorKind.BROKEN
        self._close_and_fail(kind, detail, exchange)

    def _close_and_fail(self, kind: ErrorKind, detail: str, exchange: Exchange) -> None:
        if self._exchange is exchange:
            self.shut_down(kind, detail)

    def _fail(self, kind: ErrorKind, detail: str) -> None:
        exchange = self._exchange
        if exchange is not None:
            self._drop_exchange()
            failure = UpstreamFailure(kind, detail, written=exchange.written)
            self._tell(lambda: exchange.sink.on_failure(failure))

    def _drop_exchange(self) -> None:
        if self._exchange is not None:
            self._exchange.attach(None)
            self._exchange = None
        if self._upload is not None:
            self._upload.stop()
            self._upload = None
        self._head = self._body = b""
        self.resume_reading()

    def _close(self) -> None:
        self._unsent = _NOTHING
        if self._transport is not None:
            self._transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()
            self._note_closed()

    def _note_closed(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._reader.discard()
        self._owner.on_closed(self)

    def _is_flushed(self) -> bool:
        transport = self._transport
        return transport is not None and not transport.is_closing() and not transport.get_write_buffer_size()

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001  the exchange is over, only the fault is left to report
            self._report(error)

    def _report(self, error: Exception) -> None:
        message = "the receiver of an upstream response raised"
        self._timers.call_exception_handler({"message": message, "exception": error, "protocol": self})

    # Deadlines.

    def _on_timer(self) -> None:
        self._timer = None
        exchange = self._exchange
        if exchange is None:
            return
        now = self._timers.time()
        wait_s = self._period_s
        for deadline, kind, detail in self._deadlines(exchange):
            if deadline <= now:
                self._close()
                self._fail(kind, detail)
                return
            wait_s = min(wait_s, deadline - now)
        self._timer = self._timers.call_later(wait_s, self._on_timer)

    def _deadlines(self, exchange: Exchange) -> list[tuple[float, ErrorKind, str]]:
        if self._reader.upgraded:
            return []
        total_s = self._settings.total_timeout_s
        limits = [(exchange.started_at, total_s, ErrorKind.TOTAL_TIMEOUT, "not complete")]
        waits_for_body = self._upload is not None and not self._upload.complete and not self._write_paused
        # Connecting has its own limit; a pause is the client's, and so is a body that does not come.
        if exchange.written and not self._paused and not waits_for_body:
            limits.append((self._since, *self._silence_limit()))
        return [(since + s, kind, f"{what} within {s:g} s") for since, s, kind, what in limits if s > 0]

    def _silence_limit(self) -> tuple[float, ErrorKind, str]:
        settings = self._settings
        if not self._head_told:
            return settings.first_byte_timeout_s, ErrorKind.FIRST_BYTE_TIMEOUT, "no response head"
        if not self._body_began:
            return settings.first_byte_timeout_s, ErrorKind.IDLE_TIMEOUT, "no body"
        return settings.idle_timeout_s, ErrorKind.IDLE_TIMEOUT, "nothing"


def _shortest_timeout_s(settings: UpstreamSettings) -> float:
    """No deadline can come sooner than this after the step that sets it; 0: there are none."""
    timeouts = (settings.first_byte_timeout_s, settings.idle_timeout_s, settings.total_timeout_s)
    return min((timeout for timeout in timeouts if timeout > 0), default=0.0)


def _enable_probes(transport: asyncio.BaseTransport) -> None:
    """Let the kernel notice within a minute that a silent endpoint's machine is gone."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
