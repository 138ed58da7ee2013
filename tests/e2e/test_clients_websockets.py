"""The real `websockets` client against the router in front of simulated servers."""

import asyncio
import json

import pytest
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.e2e.kit import eventually
from tests.simserver.test_realtime import COMMIT, append, hear, say

MODEL = "sim/llama-8b"


@pytest.fixture
async def stage(fleet, route):
    """Two servers and a router that knows their model."""
    servers = await fleet(2, answer_tokens=(3, 3))
    router = await route(*servers, drain_timeout_s=3.0)
    await router.know(MODEL)
    return servers, router


def session(router, query="?model=sim/llama-8b", **options):
    url = router.url.replace("http://", "ws://")
    return open_websocket(f"{url}/v1/realtime{query}", proxy=None, **options)


async def utter(websocket, data):
    await say(websocket, {"type": "session.update", "model": MODEL}, append(data), COMMIT)
    return (await hear(websocket))[-1]


async def test_speech_becomes_text_through_the_router(stage):
    servers, router = stage
    async with session(router) as websocket:
        first = await utter(websocket, b"Xin chao" * 20_000)
        second = await utter(websocket, b"Tam biet")
        address = websocket.response.headers["x-epp-endpoint"]

    assert address in {server.address for server in servers}
    assert websocket.response.headers["x-request-id"]
    assert len(first["text"].split()) == len(second["text"].split()) == 3
    assert first["text"] != second["text"]


async def test_pings_pass_to_the_endpoint_and_back(stage):
    _, router = stage
    async with session(router) as websocket:
        assert await asyncio.wait_for(await websocket.ping(b"are you there"), 10) >= 0


async def test_a_websocket_counts_at_its_endpoint_until_it_closes_and_the_next_goes_elsewhere(stage):
    _, router = stage
    async with session(router) as first, session(router) as second:
        addresses = [w.response.headers["x-epp-endpoint"] for w in (first, second)]
        busy = (await router.client.get("/load")).json()
    [one, other] = await router.decisions(2)

    assert len(set(addresses)) == 2
    assert busy == {"server_load": 2}
    assert (await router.client.get("/load")).json() == {"server_load": 0}
    assert {one["endpoint"], other["endpoint"]} == set(addresses)
    assert [(d["path"], d["status"], d["reason"]) for d in (one, other)] == [
        ("/v1/realtime", 101, "complete")
    ] * 2


async def test_the_model_of_the_query_decides_who_may_serve_it(fleet, route):
    [whisper], [llama] = await fleet(model="whisper"), await fleet(model="llama")
    router = await route(whisper, llama)
    await router.know("whisper", "llama")
    served = set()
    for _ in range(3):
        async with session(router, "?model=whisper") as websocket:
            served.add(websocket.response.headers["x-epp-endpoint"])
    with pytest.raises(InvalidStatus) as refused:
        await session(router, "?model=nope")

    assert served == {whisper.address}
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body)["error"]["code"] == "model_not_found"


async def test_a_closed_route_refuses_the_handshake(fleet, route):
    from epp.config.path_rules import parse_path_rules

    router = await route(*(await fleet()), path_rules=parse_path_rules("deny /v1/realtime"))
    with pytest.raises(InvalidStatus) as refused:
        await session(router)

    assert refused.value.response.status_code == 403


async def test_an_endpoint_that_dies_closes_the_websocket(stage):
    servers, router = stage
    async with session(router) as websocket:
        address = websocket.response.headers["x-epp-endpoint"]
        [server] = [server for server in servers if server.address == address]
        await hear(websocket, "session.created")
        await server.kill()
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(websocket.recv(), 10)
    [decision] = await router.decisions(1)

    assert decision["reason"] == "upstream_aborted"


async def test_a_client_that_leaves_frees_the_endpoint(fleet, route):
    [server] = await fleet(time_scale=1.0, answer_tokens=(300, 300))
    router = await route(server)
    await router.know(MODEL)
    async with session(router) as websocket:
        await say(websocket, {"type": "session.update", "model": MODEL}, append(b"a"), COMMIT)
        await eventually(lambda: server.core.engine.live_requests == 1)
        websocket.transport.abort()
        await eventually(lambda: server.core.engine.live_requests == 0)


async def test_the_end_of_a_drain_closes_with_1001_and_until_then_the_websocket_works(fleet, spawn):
    [server] = await fleet(answer_tokens=(3, 3))
    process = await spawn(
        "serve", "--endpoint", server.url, "--host", "127.0.0.1", "--port", "0", "--drain-timeout", "3s"
    )
    url = (await process.url()).replace("http://", "ws://")
    async with open_websocket(f"{url}/v1/realtime", proxy=None) as websocket:
        process.signal(15)
        await utter(websocket, b"still here")
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(websocket.recv(), 15)

    assert closed.value.rcvd.code == 1001
    assert await process.ended() == 0
