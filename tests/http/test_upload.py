"""A body that is written while it comes in: framing, back-pressure, endings, deadlines."""

import asyncio

import pytest

from epp.http import UpstreamPool, UpstreamRequest, UpstreamSettings
from epp.http.exchange import Exchange
from epp.http.request import encode_head
from epp.http.types import ErrorKind
from tests.http.fakes import Line, RecordingSink
from tests.http.servers import AwaitableSink, endpoint

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Source:
    """A stream that writes down what it is told; the test writes."""

    def __init__(self, length=None):
        self.length = length
        self.told = []
        self.writer = None

    def begin(self, writer):
        self.told.append("begin")
        self.writer = writer

    def pause(self):
        self.told.append("pause")

    def resume(self):
        self.told.append("resume")

    def stop(self):
        self.told.append("stop")


@pytest.fixture
def sink():
    return RecordingSink()


def sent(line):
    return b"".join(line.transport.written)


@pytest.mark.parametrize(
    ("length", "framing"),
    [(None, b"transfer-encoding: chunked"), (7, b"content-length: 7"), (0, b"content-length: 0")],
)
def test_the_head_says_how_the_body_is_framed(length, framing):
    request = UpstreamRequest(b"POST", b"/x", [], Source(length))
    assert encode_head(request, b"h:1") == b"POST /x HTTP/1.1\r\nhost: h:1\r\n" + framing + b"\r\n\r\n"


def test_a_body_of_known_length_goes_out_as_it_is(sink):
    line, source = Line(), Source(5)
    line.send(sink, source)
    source.writer.write(b"abc")
    source.writer.write(b"")
    source.writer.write(b"de")
    source.writer.end()

    assert sent(line) == b"HEAD|abcde"
    assert source.told == ["begin"]


def test_a_body_of_unknown_length_goes_out_in_chunks(sink):
    line, source = Line(), Source()
    line.send(sink, source)
    source.writer.write(b"x" * 26)
    source.writer.write(b"")
    source.writer.end()
    source.writer.end()

    assert sent(line) == b"HEAD|1a\r\n" + b"x" * 26 + b"\r\n0\r\n\r\n"


def test_nothing_is_asked_for_before_the_connection_is_made_nor_if_it_is_not(sink):
    line, source = Line(connects=False), Source()
    exchange = line.send(sink, source)
    before = source.told[:]
    line.connection.connect_failed(ErrorKind.CONNECT, "refused")

    assert (before, source.told, exchange.written) == ([], [], False)
    assert sink.events[0].kind is ErrorKind.CONNECT


def test_a_stream_that_was_not_begun_can_be_sent_again(sink):
    source = Source(1)
    first = Line(connects=False)
    first.send(sink, source)
    first.connection.connect_failed(ErrorKind.CONNECT, "refused")
    second = Line()
    second.send(sink, source)
    source.writer.write(b"x")

    assert sent(second) == b"HEAD|x"


def test_back_pressure_of_the_transport_reaches_the_source(sink):
    line, source = Line(), Source()
    line.send(sink, source)
    line.connection.pause_writing()
    line.connection.resume_writing()
    source.writer.end()
    line.connection.pause_writing()
    line.connection.resume_writing()

    assert source.told == ["begin", "pause", "resume"]


def test_a_source_on_a_full_transport_begins_paused(sink):
    line, source = Line(), Source()
    line.connection.pause_writing()
    line.send(sink, source)

    assert source.told == ["begin", "pause"]


def test_a_connection_is_kept_after_a_complete_upload(sink):
    line, source = Line(), Source()
    line.send(sink, source)
    source.writer.end()
    line.receive(OK)

    assert line.owner.idle == [line.connection]
    assert source.told == ["begin", "stop"]


def test_an_answer_before_the_end_of_the_upload_is_delivered_and_the_connection_closed(sink):
    line, source = Line(), Source()
    line.send(sink, source)
    source.writer.write(b"a")
    line.receive(OK)
    source.writer.write(b"b")
    source.writer.end()

    assert sink.events == [200, b"ok", "end"]
    assert line.transport.aborted
    assert sent(line) == b"HEAD|1\r\na\r\n"
    assert source.told == ["begin", "stop"]


def test_an_upload_goes_on_after_the_head_of_an_answer(sink):
    line, source = Line(), Source()
    line.send(sink, source)
    line.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    source.writer.write(b"a")
    source.writer.end()
    line.receive(b"ok")

    assert sent(line) == b"HEAD|1\r\na\r\n0\r\n\r\n"
    assert line.owner.idle == [line.connection]


@pytest.mark.parametrize("ending", ["abort", "lost"])
def test_an_exchange_that_ends_stops_its_source(sink, ending):
    line, source = Line(), Source()
    exchange = line.send(sink, source)
    if ending == "abort":
        exchange.abort()
    else:
        line.connection.connection_lost(ConnectionResetError("reset"))
    source.writer.write(b"late")
    source.writer.end()

    assert source.told == ["begin", "stop"]
    assert sent(line) == b"HEAD|"


def test_a_source_that_is_slow_stops_the_time_and_an_endpoint_that_takes_nothing_does_not(sink):
    line, source = Line(first_byte_timeout_s=10.0), Source()
    line.send(sink, source)
    line.timers.advance(60.0)
    source.writer.write(b"a")
    assert sink.events == []

    line.connection.pause_writing()
    line.timers.advance(9.0)
    assert sink.events == []
    line.timers.advance(1.0)
    assert sink.events[0].kind is ErrorKind.FIRST_BYTE_TIMEOUT


def test_the_wait_for_the_head_begins_with_the_end_of_the_upload(sink):
    line, source = Line(first_byte_timeout_s=10.0), Source()
    line.send(sink, source)
    line.timers.advance(60.0)
    source.writer.end()
    line.timers.advance(9.9)
    assert sink.events == []
    line.timers.advance(0.1)
    assert sink.events[0].kind is ErrorKind.FIRST_BYTE_TIMEOUT


class Pump(Source):
    """Writes pieces whenever it may."""

    def __init__(self, pieces, length=None):
        super().__init__(length)
        self.may_write = asyncio.Event()
        self.was_paused = asyncio.Event()
        self.pieces = pieces

    def begin(self, writer):
        super().begin(writer)
        self.may_write.set()

    def pause(self):
        super().pause()
        self.was_paused.set()
        self.may_write.clear()

    def resume(self):
        super().resume()
        self.may_write.set()

    async def run(self):
        for piece in self.pieces:
            await self.may_write.wait()
            self.writer.write(piece)
        self.writer.end()


@pytest.mark.parametrize("chunked", [True, False])
def test_a_large_upload_over_a_socket_waits_for_a_slow_endpoint(run, chunked):
    async def scenario():
        pieces = [bytes([n]) * 65_536 for n in range(200)]
        read = asyncio.Event()
        got = []

        async def script(peer):
            head = await peer.reader.readuntil(b"\r\n\r\n")
            assert (b"transfer-encoding: chunked" in head) is chunked
            await read.wait()
            for _ in pieces:
                if chunked:
                    assert await peer.reader.readuntil(b"\r\n") == b"10000\r\n"
                got.append(await peer.reader.readexactly(65_536))
                if chunked:
                    await peer.reader.readexactly(2)
            if chunked:
                assert await peer.reader.readexactly(5) == b"0\r\n\r\n"
            await peer.send(OK)
            await peer.closed_by_client()

        async with endpoint(script) as origin:
            upstream = UpstreamPool(UpstreamSettings())
            pump = Pump(pieces, None if chunked else 200 * 65_536)
            sink = AwaitableSink()
            upstream.send(origin, UpstreamRequest(b"POST", b"/", [], pump), sink)
            pumping = asyncio.ensure_future(pump.run())
            await pump.was_paused.wait()
            waiting = not pumping.done()
            read.set()
            failure = await sink.done
            await pumping
            await upstream.close()
        return waiting, failure, sink.body, got == pieces

    assert run(scenario()) == (True, None, b"ok", True)


SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


def upgrade(line, sink, source):
    exchange = Exchange(sink, line.timers.now, reused=False)
    line.connection.start(exchange, b"HEAD|", source, head_only=False, upgrade=True)
    line.connect()
    return exchange


def test_the_head_of_an_upgrade_frames_no_body():
    request = UpstreamRequest(b"GET", b"/ws", [(b"upgrade", b"websocket")], Source(), upgrade=True)
    assert encode_head(request, b"h:1") == b"GET /ws HTTP/1.1\r\nhost: h:1\r\nupgrade: websocket\r\n\r\n"


def test_after_a_101_bytes_go_both_ways_as_they_are(sink):
    line, source = Line(connects=False), Source()
    upgrade(line, sink, source)
    before = source.told[:]
    line.receive(SWITCH + b"\x81\x02hi")
    source.writer.write(b"\x81\x82....")
    line.receive(b"\x88\x00")
    line.connection.eof_received()

    assert before == []
    assert source.told == ["begin", "stop"]
    assert sink.events == [101, b"\x81\x02hi", b"\x88\x00", "end"]
    assert sent(line) == b"HEAD|\x81\x82...."
    assert (line.owner.idle, line.transport.aborted) == ([], True)


def test_back_pressure_holds_for_an_upgraded_connection_too(sink):
    line, source = Line(connects=False), Source()
    upgrade(line, sink, source)
    line.receive(SWITCH)
    line.connection.pause_writing()
    line.connection.resume_writing()

    assert source.told == ["begin", "pause", "resume"]


def test_no_timeout_runs_on_an_upgraded_connection_and_all_do_before(sink):
    settings = {"first_byte_timeout_s": 5.0, "idle_timeout_s": 5.0, "total_timeout_s": 50.0}
    line, source = Line(connects=False, **settings), Source()
    upgrade(line, sink, source)
    line.receive(SWITCH)
    line.timers.advance(1000.0)
    assert sink.events == [101]

    other, waiting = Line(connects=False, **settings), RecordingSink()
    upgrade(other, waiting, Source())
    other.timers.advance(5.0)
    assert waiting.events[0].kind is ErrorKind.FIRST_BYTE_TIMEOUT


def test_an_endpoint_that_declines_an_upgrade_answers_and_keeps_its_connection(sink):
    line, source = Line(connects=False), Source()
    upgrade(line, sink, source)
    line.receive(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")

    assert sink.events == [403, b"no", "end"]
    assert source.told == []
    assert line.owner.idle == [line.connection]


def test_a_lost_upgraded_connection_is_told_as_broken_off(sink):
    line, source = Line(connects=False), Source()
    upgrade(line, sink, source)
    line.receive(SWITCH)
    line.connection.connection_lost(ConnectionResetError("reset"))

    assert sink.events[1].kind is ErrorKind.ABORTED_AFTER_HEAD
    assert source.told == ["begin", "stop"]
