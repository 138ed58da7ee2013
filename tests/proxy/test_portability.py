"""The relay under plain uvicorn, which has no extension to cut an answer."""

import asyncio
import contextlib
import logging

import uvicorn

from epp.http import UpstreamPool, UpstreamSettings
from epp.proxy import ProxySettings, Relay, bind_socket
from tests.proxy.harness import RawClient, ScriptedDirector, eventually, post
from tests.proxy.upstream import SSE_HEAD, ScriptedUpstream, chunk, json_answer


@contextlib.asynccontextmanager
async def plain_uvicorn():
    director = ScriptedDirector()
    pool = UpstreamPool(UpstreamSettings())
    relay = Relay(director, pool, ProxySettings())
    server = uvicorn.Server(uvicorn.Config(relay, lifespan="off", log_config=None, interface="asgi3"))
    bound = bind_socket("127.0.0.1", 0)
    serving = asyncio.create_task(server._serve([bound]))
    await eventually(lambda: server.started)
    async with ScriptedUpstream() as upstream:
        director.targets = [upstream.target(), upstream.target()]
        yield director, upstream, bound.getsockname()[1]
    server.should_exit = True
    await serving
    await pool.close()


async def test_requests_are_relayed():
    async with plain_uvicorn() as (director, upstream, port), await RawClient.connect(port) as client:
        await client.send(post())
        endpoint = await upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b"{}"))
        response = await client.read_response()
        assert (response.status, response.body) == (200, b"{}")
        assert (await director.ended()).reason == "complete"


async def test_an_answer_that_dies_is_cut(caplog):
    caplog.set_level(logging.ERROR)
    async with plain_uvicorn() as (director, upstream, port), await RawClient.connect(port) as client:
        await client.send(post())
        endpoint = await upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        assert await client.read_chunk() == b"data: 1\n\n"
        endpoint.reset()
        assert await client.read_to_end() == b""
        assert (await director.ended()).reason == "upstream_aborted"
    assert "ResponseAbortedError" in caplog.text


async def test_a_client_that_leaves_closes_the_endpoint():
    async with plain_uvicorn() as (director, upstream, port), await RawClient.connect(port) as client:
        await client.send(post())
        endpoint = await upstream.accept()
        await endpoint.request()
        client.leave()
        await endpoint.closed_by_router()
        assert (await director.ended()).reason == "client_disconnected"
