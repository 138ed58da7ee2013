"""A slow reader slows the endpoint down, and the router holds a bounded part of the answer."""

import asyncio

from epp.director import Target
from epp.http import ErrorKind, ResponseHead, UpstreamFailure
from epp.http.connection import Connection
from epp.proxy.answer import BUFFER_LIMIT, Answer
from tests.proxy.harness import post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk


class Exchange:
    """Writes down what an answer asks of its connection."""

    reused = False

    def __init__(self):
        self.calls = []

    def pause(self):
        self.calls.append("pause")

    def resume(self):
        self.calls.append("resume")

    def abort(self):
        self.calls.append("abort")


def answer():
    exchange = Exchange()
    made = Answer(Target("h:1", "http", "h", 1, 0))
    made.attach(exchange)
    return made, exchange


def test_above_the_limit_the_endpoint_is_paused_once_and_resumed_when_all_is_taken():
    made, exchange = answer()
    made.on_data(b"x" * BUFFER_LIMIT)
    assert exchange.calls == []
    made.on_data(b"y")
    made.on_data(b"z")
    assert exchange.calls == ["pause"]
    assert made.take() == b"x" * 65_536 + b"yz"
    assert exchange.calls == ["pause", "resume"]
    assert made.take() == b""
    assert exchange.calls == ["pause", "resume"]


def test_what_has_come_is_taken_as_one_piece():
    made, _ = answer()
    made.on_data(b"a")
    made.on_data(b"b")
    assert (made.buffered_bytes, made.body()) == (2, b"ab")
    assert made.take() == b"ab"
    assert made.buffered_bytes == 0


def test_an_answer_that_is_over_is_not_aborted():
    ended, exchange = answer()
    ended.on_head(ResponseHead(200, b"OK", [], "1.1", keep_alive=True))
    ended.on_end()
    ended.abort()
    failed, failed_exchange = answer()
    failed.on_failure(UpstreamFailure(ErrorKind.BROKEN, "", written=True))
    failed.abort()
    assert exchange.calls == failed_exchange.calls == []
    running, running_exchange = answer()
    running.abort()
    assert running_exchange.calls == ["abort"]


async def test_the_endpoint_is_not_read_while_the_client_does_not_read(stage, monkeypatch):
    full = asyncio.Event()
    pause_reading = Connection.pause_reading

    def noticed(self):
        pause_reading(self)
        full.set()

    monkeypatch.setattr(Connection, "pause_reading", noticed)
    async with stage() as s, await s.client(receive_buffer=4096) as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD)
        sent = 0
        while not full.is_set():
            endpoint.writer.write(chunk(b"x" * 100_000))
            sent += 100_000
            await asyncio.sleep(0)
        [connection] = s.door.connections
        assert connection.transport.get_write_buffer_size() < 1_000_000
        endpoint.writer.write(LAST_CHUNK)
        assert len((await client.read_response()).body) == sent
        assert (await s.director.ended()).reason == "complete"
