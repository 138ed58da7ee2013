"""A client that leaves takes its request with it, in every phase."""

import asyncio

import pytest

from tests.proxy.harness import eventually, post
from tests.proxy.upstream import SSE_HEAD, chunk


async def test_while_the_endpoint_has_not_answered(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        client.leave()
        await endpoint.closed_by_router()
        ended = await s.director.ended()
        assert (ended.reason, ended.error) == ("client_disconnected", None)
        assert s.relay.in_flight == 0
        assert s.relay.buffered_bytes == 0


async def test_in_a_stream_while_nothing_flows(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        await client.read_chunk()
        client.leave()
        await endpoint.closed_by_router()
        ended = await s.director.ended()
        assert (ended.reason, ended.response_bytes) == ("client_disconnected", 9)


async def test_in_the_middle_of_an_answer_of_known_length(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
        await client.read_head()
        assert await client.read_exactly(4) == b"part"
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


async def test_with_a_half_close(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        client.writer.write_eof()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


async def test_while_its_body_is_being_read(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post(b"0123456789")[:-5])
        await eventually(lambda: s.director.heads)
        client.leave()
        ended = await s.director.ended()
        assert (ended.reason, ended.error) == ("client_disconnected", None)
        assert [name for name, _ in s.director.calls] == ["open", "end"]
        assert s.relay.buffered_bytes == 0


async def test_while_the_prompt_is_being_hashed(stage):
    async with stage() as s, await s.client() as client:
        s.director.yields = 1_000_000_000
        await client.send(post())
        await eventually(lambda: s.director.bodies)
        client.leave()
        assert (await s.director.ended()).reason == "client_disconnected"
        assert s.upstream.accepted == 0


async def test_messages_other_than_a_disconnect_are_no_disconnect(stage):
    async with stage() as s:
        sent, left = [], asyncio.Event()
        messages = [{"type": "http.request", "body": b"{}"}, {"type": "http.request", "body": b""}]

        async def receive():
            if messages:
                return messages.pop(0)
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message["type"])

        scope = {
            "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"",
            "scheme": "http", "headers": [], "client": None,
        }  # fmt: skip
        serving = asyncio.create_task(s.relay(scope, receive, send))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        assert not serving.done()
        left.set()
        await endpoint.closed_by_router()
        await serving
        assert (await s.director.ended()).reason == "client_disconnected"
        assert sent == []


async def test_while_the_connection_to_the_endpoint_is_being_made(stage):
    dialled, cancelled = asyncio.Event(), asyncio.Event()

    async def never(*_args):
        dialled.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with stage() as s, await s.client() as client:
        s.pool._dial = never
        await client.send(post())
        await dialled.wait()
        client.leave()
        assert (await s.director.ended()).reason == "client_disconnected"
        await cancelled.wait()


async def test_while_it_does_not_read_its_answer(stage):
    async with stage() as s, await s.client(receive_buffer=4096) as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        endpoint.writer.write(SSE_HEAD + chunk(b"x" * 20_000_000))
        await client.read_head()
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


@pytest.mark.parametrize("status", [b"503 Service Unavailable", b"500 Internal Server Error"])
async def test_while_an_error_is_being_looked_at(stage, status):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(b"HTTP/1.1 " + status + b"\r\ncontent-length: 100\r\n\r\npart")
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"
        assert s.director.failures == []
