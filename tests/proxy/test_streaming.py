"""Answers: at once, unchanged, observed, and never ended as if complete when they are not."""

import asyncio
import gc
import json
import weakref

import pytest

from epp.errors import UnsupportedEncodingError
from epp.proxy import ProxySettings
from epp.response import Usage
from tests.proxy.harness import eventually, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer

USAGE = (
    b'{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}'
)
EVENTS = (
    ": ping\n\n"
    'data: {"id":"1","choices":[{"delta":{"content":"Xin chào 世界"}}]}\n\n'
    'data:{"id":"1","choices":[],"usage":' + USAGE.decode() + "}\r\n\r\n"
    "data: [DONE]\n\n"
).encode()


async def test_each_event_reaches_the_client_before_the_next_is_sent(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        first = b'data: {"n":0}\n\n'
        await endpoint.send(SSE_HEAD + chunk(first))
        head = await client.read_head()
        assert head.status == 200
        assert await client.read_chunk() == first
        for number in range(1, 5):
            event = b'data: {"n":%d}\n\n' % number
            await endpoint.send(chunk(event))
            assert await client.read_chunk() == event
        await endpoint.send(LAST_CHUNK)
        assert await client.read_chunk() == b""
        ended = await s.director.ended()
        assert (ended.reason, ended.response_bytes) == ("complete", 75)
        assert [name for name, _ in s.director.calls] == [
            "open", "prepare", "pick", "head", "first_byte", "end"
        ]  # fmt: skip


async def test_an_answer_cut_anywhere_arrives_unchanged_with_its_usage(stage):
    wire = SSE_HEAD + chunk(EVENTS[:50]) + chunk(EVENTS[50:]) + LAST_CHUNK
    async with stage() as s, await s.client() as client:
        endpoint = None
        s.director.targets = [s.upstream.target()] * len(wire)
        for cut in range(1, len(wire)):
            await client.send(post())
            endpoint = endpoint or await s.upstream.accept()
            await endpoint.request()
            await endpoint.send(wire[:cut])
            await asyncio.sleep(0)
            await endpoint.send(wire[cut:])
            assert (await client.read_response()).body == EVENTS
            ended = await s.director.ended()
            assert (ended.reason, ended.response_bytes) == ("complete", len(EVENTS))
            assert ended.usage == Usage(7, 3, 4)


async def test_the_usage_of_a_json_answer_is_observed(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b'{"usage":' + USAGE + b"}"))
        await client.read_response()
        assert (await s.director.ended()).usage == Usage(7, 3, 4)


async def test_the_usage_in_an_error_is_not_observed(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b'{"usage":' + USAGE + b"}", b"400 Bad Request"))
        await client.read_response()
        assert (await s.director.ended()).usage is None


async def test_an_error_to_a_streaming_request_keeps_its_status_and_its_body(stage):
    body = b'{"error":{"message":"max_tokens is too large"}}'
    async with stage() as s, await s.client() as client:
        await client.send(post(b'{"stream":true}'))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(body, b"400 Bad Request"))
        response = await client.read_response()
        assert (response.status, response.body) == (400, body)


async def test_nothing_is_sent_before_the_endpoints_head(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-le")
        await asyncio.sleep(0)
        assert client.reader._buffer == b""
        await endpoint.send(b"ngth: 2\r\n\r\n{}")
        assert (await client.read_response()).body == b"{}"


DEATHS = {
    "reset": (SSE_HEAD + chunk(b"data: 1\n\n"), "reset"),
    "chunked without an end": (SSE_HEAD + chunk(b"data: 1\n\n"), "close"),
    "cut inside a chunk": (SSE_HEAD + b"20\r\ndata: 1\n\n", "close"),
    "short of its length": (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: 1\n\n", "close"),
    "a bad chunk": (SSE_HEAD + chunk(b"data: 1\n\n") + b"zz\r\n", None),
}


@pytest.mark.parametrize(("wire", "how"), DEATHS.values(), ids=DEATHS.keys())
async def test_an_answer_that_dies_is_cut_and_never_ended(stage, wire, how):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(wire)
        await client.read_head()
        await client.read_until(b"data: 1\n\n")
        if how is not None:
            getattr(endpoint, how)()
        assert await client.read_to_end() in (b"\r\n", b"")
        ended = await s.director.ended()
        assert (ended.reason, ended.error, ended.response_bytes) == ("upstream_aborted", None, 9)


async def test_an_error_event_precedes_the_cut_if_it_is_wanted(stage):
    async with stage(ProxySettings(stream_error_event=True)) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b'data: {"half'))
        await client.read_head()
        assert await client.read_chunk() == b'data: {"half'
        endpoint.close()
        event = await client.read_chunk()
        assert event.startswith(b"\n\nevent: error\ndata: ")
        assert event.endswith(b"\n\n")
        error = json.loads(event.split(b"data: ")[1])["error"]
        assert error["code"] == "upstream_protocol_error"
        assert await client.read_to_end() == b""


async def test_an_error_event_is_not_added_to_other_answers(stage):
    async with stage(ProxySettings(stream_error_event=True)) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
        await client.read_head()
        assert await client.read_exactly(4) == b"part"
        endpoint.close()
        assert await client.read_to_end() == b""


async def test_a_body_that_the_director_cannot_read_is_refused(stage):
    async with stage() as s, await s.client() as client:
        s.director.prepare_error = UnsupportedEncodingError("br is not read here", param="content-encoding")
        await client.send(post())
        response = await client.read_response()
        assert response.status == 415
        assert json.loads(response.body)["error"]["param"] == "content-encoding"
        assert [name for name, _ in s.director.calls] == ["open", "prepare", "end"]


async def test_an_error_of_ours_before_the_answer_is_500_and_logged_without_the_body(stage, caplog):
    async with stage() as s, await s.client() as client:
        s.director.prepare_error = RuntimeError("bug")
        await client.send(post(b"SENTINEL-9f3", extra=b"x-request-id: abc\r\n"))
        response = await client.read_response()
        assert response.status == 500
        assert response.value(b"x-request-id") == b"abc"
        assert json.loads(response.body)["error"]["code"] == "internal_error"
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 500)
    assert "request abc failed" in caplog.text
    assert "SENTINEL" not in caplog.text


async def test_an_error_of_ours_in_the_answer_cuts_it(stage, monkeypatch):
    def broken(*_args):
        raise TimeoutError("bug")

    async with stage() as s, await s.client() as client:
        monkeypatch.setattr(s.director, "on_first_byte", broken)
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        assert await client.read_to_end() in {b"", chunk(b"data: 1\n\n")}  # never the last chunk
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "rejected"


async def test_a_request_that_cannot_be_framed_is_500(stage):
    async with stage() as s, await s.client() as client:
        s.pool.send = broken_send
        await client.send(post())
        assert (await client.read_response()).status == 500


def broken_send(*_args, **_options):
    raise ValueError("a line break in a header")


@pytest.mark.parametrize("dies", [False, True], ids=["complete", "cut"])
async def test_a_request_leaves_nothing_for_the_garbage_collector(stage, dies):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        gc.collect()
        gc.disable()
        try:
            [request] = s.relay._active
            left = weakref.ref(request)
            del request
            if dies:
                endpoint.close()
            else:
                await endpoint.send(LAST_CHUNK)
            await s.director.ended()
            await eventually(lambda: left() is None)
        finally:
            gc.enable()


async def test_the_hashing_of_a_large_prompt_lets_others_in(stage):
    async with stage() as s, await s.client() as hashing, await s.client() as other:
        s.director.targets.append(s.upstream.target())
        s.director.yields = 1_000_000_000
        await hashing.send(post())
        await eventually(lambda: len(s.director.bodies) == 1)
        s.director.yields = 0
        await other.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b"{}"))
        assert (await other.read_response()).status == 200
