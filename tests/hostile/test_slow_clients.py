"""Clients that take their time: a byte now and then must not keep a connection for ever."""

import asyncio
import contextlib
from contextlib import AsyncExitStack

import pytest

from epp.proxy import ProxySettings
from tests.hostile.kit import statuses
from tests.proxy.harness import PATIENCE_S

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
FAST = ProxySettings(head_timeout_s=0.2, body_timeout_s=0.2, keep_alive_s=0.3)


async def dripped(f, begin, drop):
    """Begin a request, then send `drop` again and again; what the router says, and how long it listened."""
    async with await f.client() as client:
        await client.send(begin)
        answer = asyncio.create_task(client.reader.read())
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(ConnectionError):
            while not answer.done() and asyncio.get_running_loop().time() - began < PATIENCE_S:
                client.writer.write(drop)
                await asyncio.sleep(0.01)
        waited_s = asyncio.get_running_loop().time() - began
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await answer, waited_s
            except ConnectionResetError:  # what was sent last came after the end
                return b"", waited_s


DRIPS = {
    "a head byte by byte": (HEAD + b"X: ", b"a"),
    "headers one by one": (HEAD, b"X: a\r\n"),
    "empty lines": (b"", b"\r\n"),
    "a body byte by byte": (HEAD + b"Content-Length: 100000\r\n\r\n", b"a"),
    "an upload byte by byte": (
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
        b"a",
    ),
    "chunks one by one": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "a chunk extension that does not end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;a", b"a"),
    "zeros of a chunk size that does not end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "trailers one by one": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: a\r\n"),
}


@pytest.mark.parametrize(("begin", "drop"), DRIPS.values(), ids=DRIPS)
async def test_bytes_that_come_drop_by_drop_do_not_put_a_timeout_off(open_front, begin, drop):
    async with open_front(FAST) as f:
        wire, waited_s = await dripped(f, begin, drop)
        assert statuses(wire) in ([408], [431], [])
        assert waited_s < 5
        assert f.relay.in_flight == 0
        assert f.relay.buffered_bytes == 0


async def test_a_connection_on_which_nothing_ever_comes_is_closed(open_front):
    async with open_front(ProxySettings(head_timeout_s=0.1, keep_alive_s=0.1)) as f:
        assert await f.exchange() == b""


async def test_many_half_requests_hold_nothing_but_their_connections(open_front):
    async with open_front(ProxySettings(body_timeout_s=0.5)) as f, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await f.client()) for _ in range(100)]
        for client in clients:
            await client.send(HEAD + b"Content-Length: 60000000\r\n\r\n" + b"a" * 1000)
        answers = await asyncio.gather(*(client.read_to_end() for client in clients))
        assert {tuple(statuses(wire)) for wire in answers} == {(408,)}
        assert f.relay.buffered_bytes == 0
