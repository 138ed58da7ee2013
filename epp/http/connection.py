"""One connection to an endpoint: writes a request, reads its response, keeps its deadlines."""

import asyncio
import socket
from typing import Protocol, cast

from epp.http.exchange import Exchange
from epp.http.patience import PatientTimer, Timers
from epp.http.response import ResponseReader
from epp.http.types import BodyStream, ErrorKind, Origin, ResponseHead, UpstreamFailure, UpstreamSettings
from epp.http.upload import Upload

__all__ = ["Connection", "ConnectionOwner", "Exchange"]

_JOIN_BYTES = 16_384  # up to here one joined write is cheaper than two
_SLICE_BYTES = 262_144  # the most that a transport has to copy of a large body at a time
_PROBES = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))  # not all systems have all
_NOTHING = memoryview(b"")

_Body = bytes | bytearray | BodyStream


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

    Attributes:
        origin: where it leads.
        connecting: the task that makes it.
        progress_at: when bytes last went or came, or could again; time of the loop.
    """

    __slots__ = (
        "_body_began", "_closed", "_exchange", "_head_told", "_owner", "_paused", "_pending", "_period_s",
        "_reader", "_settings", "_timer", "_timers", "_transport", "_unsent", "_upload", "_write_paused",
        "connecting", "origin", "progress_at",
    )  # fmt: skip

    def __init__(
        self, owner: ConnectionOwner, origin: Origin, settings: UpstreamSettings, timers: Timers
    ) -> None:
        self.origin = origin
        self.connecting: asyncio.Task[None] | None = None
        self.progress_at = 0.0
        self._owner = owner
        self._settings = settings
        self._timers = timers
        self._timer: PatientTimer | None = None
        self._period_s = _shortest_timeout_s(settings)
        self._reader = ResponseReader(settings)
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._exchange: Exchange | None = None
        self._pending: tuple[bytes, _Body] | None = None  # until it is connected; of an upgrade until the 101
        self._unsent = _NOTHING
        self._upload: Upload | None = None
        self._write_paused = False
        self._paused = False
        self._head_told = self._body_began = False

    # What the pool and the exchange call.

    def start(
        self,
        exchange: Exchange,
        head: bytes,
        body: _Body,
        *,
        head_only: bool,
        upgrade: bool = False,
    ) -> None:
        """Send a request, as soon as the connection is made if it is not yet; `head_only` for HEAD.

        `upgrade`: `body` is a stream that begins with a 101.
        """
        self._exchange = exchange
        exchange.connection = self
        self._reader.begin(head_only=head_only, upgrade=upgrade)
        self._head_told = self._body_began = False
        if self._timer is None and self._period_s > 0:
            self._timer = PatientTimer(self._timers, self._period_s, self._on_timer)
        transport = self._transport
        if transport is None:
            self._pending = head, body
        else:
            self.progress_at = exchange.started_at
            self._write_request(transport, exchange, head, body)

    def is_open(self) -> bool:
        """The transport can still be written to."""
        transport = self._transport
        return transport is not None and not transport.is_closing()

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
            self._note_progress()
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
        exchange, pending = self._exchange, self._pending
        if exchange is None or pending is None:
            self._transport.abort()
            return
        if self._paused:
            self._transport.pause_reading()
        self._pending = None
        self._note_progress()
        self._write_request(self._transport, exchange, *pending)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self._close()  # bytes that nobody asked for
            return
        reader = self._reader
        reader.feed(data)
        self.progress_at = self._timers.time()
        try:
            if not self._head_told and reader.head is not None:
                self._deliver_head(exchange, reader.head)
                if self._exchange is not exchange:
                    return
            body = reader.take_body()
            if body:
                self._body_began = True
                exchange.sink.on_data(body)
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

    def _write_request(
        self, transport: asyncio.Transport, exchange: Exchange, head: bytes, body: _Body
    ) -> None:
        exchange.written = True
        if not isinstance(body, (bytes, bytearray)):
            transport.write(head)
            if self._reader.may_upgrade:
                self._pending = b"", body
            else:
                self._begin_upload(transport, body, chunked=body.length is None)
        elif len(body) <= _JOIN_BYTES:
            transport.write(head + body)
        else:
            transport.write(head)
            self._unsent = memoryview(body)
            self._write_body(transport)

    def _write_body(self, transport: asyncio.Transport) -> None:
        while self._unsent and not self._write_paused and not transport.is_closing():
            piece, self._unsent = self._unsent[:_SLICE_BYTES], self._unsent[_SLICE_BYTES:]
            transport.write(piece)

    def _begin_upload(self, transport: asyncio.Transport, body: BodyStream, *, chunked: bool) -> None:
        self._upload = Upload(
            transport, body, self._note_progress, chunked=chunked, paused=self._write_paused
        )

    def _note_progress(self) -> None:
        self.progress_at = self._timers.time()

    # Reading.

    def _deliver_head(self, exchange: Exchange, head: ResponseHead) -> None:
        self._head_told = True
        pending, transport = self._pending, self._transport
        if pending is not None and transport is not None and self._reader.upgraded:
            self._begin_upload(transport, cast(BodyStream, pending[1]), chunked=False)
        exchange.sink.on_head(head)

    # Endings. Each drops the exchange first, settles the connection, and calls the sink last.

    def _finish(self, exchange: Exchange) -> None:
        upload, transport = self._upload, self._transport
        reusable = (
            self._reader.reusable
            and not self._unsent
            and (upload is None or upload.complete)
            and transport is not None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )
        self._drop_exchange()
        if reusable:
            self._owner.on_idle(self)
        else:
            self._close()
        try:
            exchange.sink.on_end()
        except Exception as error:  # noqa: BLE001  the exchange is over, only the fault is left to report
            self._report(error)

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
            try:
                exchange.sink.on_failure(failure)
            except Exception as error:  # noqa: BLE001  as above
                self._report(error)

    def _drop_exchange(self) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.connection = None
            self._exchange = None
        if self._upload is not None:
            self._upload.stop()
            self._upload = None
        self._pending = None
        if self._paused:
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
        self._timer = PatientTimer(self._timers, wait_s, self._on_timer)

    def _deadlines(self, exchange: Exchange) -> list[tuple[float, ErrorKind, str]]:
        if self._reader.upgraded:
            return []
        total_s = self._settings.total_timeout_s
        limits = [(exchange.started_at, total_s, ErrorKind.TOTAL_TIMEOUT, "not complete")]
        waits_for_body = self._upload is not None and not self._upload.complete and not self._write_paused
        # Connecting has its own limit; a pause is the client's, and so is a body that does not come.
        if exchange.written and not self._paused and not waits_for_body:
            limits.append((self.progress_at, *self._silence_limit()))
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
