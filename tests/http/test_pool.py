"""Which connection carries an exchange, and when one is opened, kept, closed or refused."""

import asyncio
import errno

import pytest

from epp.http.pool import PoolStats, UpstreamPool
from epp.http.types import ErrorKind, Origin, UpstreamFailure, UpstreamRequest, UpstreamSettings
from tests.http.fakes import FakeTimers, FakeTransport, RecordingSink

E1, E2 = Origin("http", "10.0.0.1", 8000), Origin("http", "10.0.0.2", 8000)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class FakeLoop(FakeTimers):
    """Timers in memory; tasks and callbacks run on the loop of the test."""

    def create_task(self, coroutine):
        return asyncio.get_running_loop().create_task(coroutine)

    def call_soon(self, callback, *args):
        return asyncio.get_running_loop().call_soon(callback, *args)


class FakeNetwork:
    """Every dial succeeds at once, unless `fault` says otherwise; remembers connections in order."""

    def __init__(self):
        self.dialled = []
        self.connections = []
        self.transports = []
        self.fault = None
        self.hang = False

    async def dial(self, protocol, origin, tls):
        self.dialled.append((origin, tls))
        if self.hang:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        connection, transport = protocol(), FakeTransport()
        self.connections.append(connection)
        self.transports.append(transport)
        connection.connection_made(transport)

    def answer(self, *numbers):
        for number in numbers:
            self.connections[number].data_received(OK)


class Scene:
    """A pool on a fake loop and network."""

    def __init__(self, **settings):
        self.loop = FakeLoop()
        self.network = FakeNetwork()
        self.pool = UpstreamPool(UpstreamSettings(**settings), self.loop, self.network.dial)

    async def send(self, origin=E1, sink=None, **options):
        request = UpstreamRequest(b"GET", b"/", [], b"")
        exchange = self.pool.send(origin, request, sink or RecordingSink(), **options)
        for _ in range(3):
            await asyncio.sleep(0)
        return exchange


async def test_connection_used_last_is_reused_first():
    scene = Scene()
    for _ in range(3):
        await scene.send()
    scene.network.answer(1, 2, 0)
    await scene.send()
    await scene.send()

    assert [len(transport.written) for transport in scene.network.transports] == [2, 1, 2]
    assert scene.pool.stats() == PoolStats(idle=1, active=2, opened_total=3, reused_total=2)


async def test_origins_do_not_share_connections():
    scene = Scene()
    await scene.send(E1)
    scene.network.answer(0)
    await scene.send(E2)
    await scene.send(Origin("https", "10.0.0.1", 8000))

    assert [origin for origin, _ in scene.network.dialled] == [E1, E2, Origin("https", "10.0.0.1", 8000)]


async def test_only_https_origins_get_tls_and_one_context_serves_all():
    scene = Scene()
    secure = Origin("https", "10.0.0.1", 8443)
    for origin in (E1, secure, secure):
        await scene.send(origin)
    contexts = [tls for _, tls in scene.network.dialled]

    assert contexts[0] is None
    assert contexts[1] is contexts[2] is not None


async def test_connection_idle_for_the_keep_alive_time_is_not_reused():
    scene = Scene(keep_alive_s=3.0)
    await scene.send()
    scene.network.answer(0)
    scene.loop.now += 3.0  # the sweep has not run: the loop was busy
    exchange = await scene.send()

    assert not exchange.reused
    assert scene.network.transports[0].aborted


async def test_a_request_closes_no_more_than_one_connection_that_is_too_old():
    scene = Scene(keep_alive_s=3.0)
    for _ in range(3):
        await scene.send()
    scene.network.answer(0, 1, 2)
    scene.loop.now += 3.0
    await scene.send()

    assert [transport.aborted for transport in scene.network.transports] == [False, False, True, False]


async def test_many_idle_connections_are_closed_fifty_at_a_time():
    scene = Scene(keep_alive_s=3.0)
    for _ in range(120):
        await scene.send()
    scene.network.answer(*range(120))
    scene.loop.now += 3.0
    closed, delays = [], []
    for _ in range(3):
        sweeper = scene.loop.timers.pop()
        delays.append(sweeper.when - scene.loop.now)
        sweeper.callback()
        closed.append(sum(transport.aborted for transport in scene.network.transports))

    assert closed == [50, 100, 120]
    assert delays[1:] == [0.0, 0.0]  # the others have their turn between


async def test_connection_idle_for_less_is_reused():
    scene = Scene(keep_alive_s=3.0)
    await scene.send()
    scene.network.answer(0)
    scene.loop.now += 2.9

    assert (await scene.send()).reused


async def test_idle_connections_are_closed_within_one_and_a_half_keep_alive_times():
    scene = Scene(keep_alive_s=3.0)
    await scene.send()
    await scene.send()
    scene.network.answer(0)
    scene.loop.advance(1.4)
    scene.network.answer(1)
    scene.loop.advance(1.4)
    young = [transport.aborted for transport in scene.network.transports]
    scene.loop.advance(1.6)
    middle = [transport.aborted for transport in scene.network.transports]
    scene.loop.advance(1.6)
    old = [transport.aborted for transport in scene.network.transports]
    armed = scene.loop.armed
    scene.loop.advance(100)

    assert (young, middle, old) == ([False, False], [True, False], [True, True])
    assert scene.loop.armed == armed


async def test_connections_are_not_kept_when_keeping_is_off():
    scene = Scene(keep_alive_s=0.0)
    await scene.send()
    scene.network.answer(0)

    assert scene.network.transports[0].aborted


async def test_idle_connection_whose_transport_closes_is_passed_over():
    scene = Scene()
    await scene.send()
    scene.network.answer(0)
    scene.network.transports[0].aborted = True

    assert not (await scene.send()).reused


async def test_lost_connections_are_forgotten():
    scene = Scene()
    await scene.send()
    await scene.send()
    scene.network.answer(0)
    for connection in scene.network.connections:
        connection.connection_lost(None)

    assert scene.pool.stats() == PoolStats(idle=0, active=0, opened_total=2, reused_total=0)
    assert scene.pool._hosts == {}


async def test_limit_of_connections_refuses_at_once_and_only_for_that_endpoint():
    scene = Scene(max_connections_per_origin=2)
    sinks = [RecordingSink() for _ in range(4)]
    for sink in sinks[:3]:
        await scene.send(E1, sink)
    await scene.send(E2, sinks[3])

    detail = "2 connections to this endpoint are in use"
    assert [sink.events for sink in sinks] == [
        [],
        [],
        [UpstreamFailure(ErrorKind.POOL_EXHAUSTED, detail, False)],
        [],
    ]
    assert len(scene.network.connections) == 3


async def test_idle_connection_counts_as_room_under_the_limit():
    scene = Scene(max_connections_per_origin=1)
    await scene.send()
    scene.network.answer(0)

    assert (await scene.send()).reused


async def test_refusal_comes_after_send_has_returned_and_not_after_an_abort():
    scene = Scene(max_connections_per_origin=1)
    await scene.send()
    told, aborted = RecordingSink(), RecordingSink()
    request = UpstreamRequest(b"GET", b"/", [], b"")
    scene.pool.send(E1, request, told)
    before = told.events[:]
    exchange = scene.pool.send(E1, request, aborted)
    exchange.pause()
    exchange.resume()
    exchange.abort()
    await asyncio.sleep(0)

    assert before == []
    assert [failure.kind for failure in told.events] == [ErrorKind.POOL_EXHAUSTED]
    assert aborted.events == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), ErrorKind.CONNECT),
        (OSError("Multiple exceptions: refused, refused"), ErrorKind.CONNECT),
        (OSError(errno.EHOSTUNREACH, "no route"), ErrorKind.CONNECT),
        (UnicodeError("label too long"), ErrorKind.CONNECT),
        (TimeoutError(errno.ETIMEDOUT, "timed out"), ErrorKind.CONNECT_TIMEOUT),
        (OSError(errno.EMFILE, "too many open files"), ErrorKind.POOL_EXHAUSTED),
        (OSError(errno.EADDRNOTAVAIL, "no port left"), ErrorKind.POOL_EXHAUSTED),
    ],
)
async def test_failed_dial_is_told_by_whose_fault_it_is(fault, kind):
    scene = Scene()
    scene.network.fault = fault
    sink = RecordingSink()
    await scene.send(sink=sink)

    assert [(failure.kind, failure.written) for failure in sink.events] == [(kind, False)]
    assert scene.pool.stats() == PoolStats(idle=0, active=0, opened_total=1, reused_total=0)


async def test_dial_that_hangs_is_given_up_at_the_connect_timeout():
    scene = Scene(connect_timeout_s=0.001)
    scene.network.hang = True
    told = asyncio.get_running_loop().create_future()
    sink = RecordingSink()
    sink.on_failure = told.set_result
    await scene.send(sink=sink)

    assert await told == UpstreamFailure(ErrorKind.CONNECT_TIMEOUT, "not connected within 0.001 s", False)


async def test_abort_while_connecting_stops_the_dial():
    scene = Scene()
    scene.network.hang = True
    sink = RecordingSink()
    exchange = await scene.send(sink=sink)
    task = next(iter(scene.pool._hosts[E1].connections)).connecting
    exchange.abort()
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()
    assert sink.events == []
    assert scene.pool.stats() == PoolStats(idle=0, active=0, opened_total=1, reused_total=0)


async def test_closing_stops_dials_and_the_sweep():
    scene = Scene()
    await scene.send()
    scene.network.answer(0)
    sweeper = scene.loop.timers[-1]
    scene.network.hang = True
    sink = RecordingSink()
    await scene.send(E2, sink)
    closing = asyncio.get_running_loop().create_task(scene.pool.close())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waits_for_transport = not closing.done()
    scene.network.connections[0].connection_lost(None)
    await closing

    assert waits_for_transport
    assert sweeper.cancelled
    assert sink.events == [UpstreamFailure(ErrorKind.POOL_EXHAUSTED, "the pool is closed", False)]


async def test_request_that_breaks_the_framing_is_refused_before_anything_happens():
    scene = Scene()

    with pytest.raises(ValueError, match="line break"):
        scene.pool.send(E1, UpstreamRequest(b"GET", b"/", [(b"a", b"b\r\nc: d")], b""), RecordingSink())

    assert scene.pool._hosts == {}
    assert scene.network.dialled == []
