"""An event loop's timers, a transport, a pool and a sink, all in memory."""

import asyncio
from dataclasses import dataclass, field

from epp.http.connection import Connection, Exchange
from epp.http.types import Origin, ResponseHead, UpstreamFailure, UpstreamSettings


@dataclass
class FakeTimer:
    when: float
    callback: object
    cancelled: bool = False

    def cancel(self):
        self.cancelled = True


@dataclass
class FakeTimers:
    """Time that moves when told to; timers fire in order and see their own time."""

    now: float = 1000.0
    timers: list[FakeTimer] = field(default_factory=list)
    armed: int = 0
    reported: list[dict] = field(default_factory=list)

    def time(self):
        return self.now

    def call_later(self, delay, callback):
        self.armed += 1
        timer = FakeTimer(self.now + delay, callback)
        self.timers.append(timer)
        return timer

    def call_exception_handler(self, context):
        self.reported.append(context)

    def advance(self, seconds):
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end and not timer.cancelled]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = first.when
            first.callback()
        self.now = end

    def stand_still(self, seconds):
        """Time passes, then what was due fires, all at once and late."""
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.when <= self.now and not timer.cancelled]:
            self.timers.remove(timer)
            timer.callback()


class FakeTransport(asyncio.Transport):
    """Takes everything that is written; closing is told to the protocol by the test."""

    def __init__(self):
        super().__init__()
        self.written: list[bytes] = []
        self.reading = True
        self.aborted = False
        self.buffered = 0
        self.on_write = None

    def write(self, data):
        self.written.append(bytes(data))
        if self.on_write is not None:
            self.on_write()

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.aborted

    def get_write_buffer_size(self):
        return self.buffered

    def pause_reading(self):
        assert self.reading
        self.reading = False

    def resume_reading(self):
        assert not self.reading
        self.reading = True


@dataclass
class FakeOwner:
    idle: list[Connection] = field(default_factory=list)
    closed: list[Connection] = field(default_factory=list)

    def on_idle(self, connection):
        self.idle.append(connection)

    def on_closed(self, connection):
        self.closed.append(connection)


@dataclass
class RecordingSink:
    """Everything it was told, in order; raises in the callback named by `raise_in`."""

    events: list[object] = field(default_factory=list)
    raise_in: str = ""

    def _note(self, name, event):
        self.events.append(event)
        if name == self.raise_in:
            raise RuntimeError(name)

    def on_head(self, head: ResponseHead):
        self._note("on_head", head.status)

    def on_data(self, data: bytes):
        self._note("on_data", data)

    def on_end(self):
        self._note("on_end", "end")

    def on_failure(self, failure: UpstreamFailure):
        self._note("on_failure", failure)


class Line:
    """A connection on a fake transport; the first request connects it, unless `connects` is off."""

    def __init__(self, *, connects: bool = True, **settings):
        self.timers = FakeTimers()
        self.owner = FakeOwner()
        self.transport = FakeTransport()
        origin = Origin("http", "10.0.0.1", 8000)
        self.connection = Connection(self.owner, origin, UpstreamSettings(**settings), self.timers)
        self.connects = connects

    def connect(self):
        self.connects = False
        self.connection.connection_made(self.transport)

    def send(self, sink, body=b"", *, reused=False, head_only=False) -> Exchange:
        exchange = Exchange(sink, self.timers.now, reused=reused)
        self.connection.start(exchange, b"HEAD|", body, head_only=head_only)
        if self.connects:
            self.connect()
        return exchange

    def receive(self, *pieces: bytes):
        for piece in pieces:
            self.connection.data_received(piece)
