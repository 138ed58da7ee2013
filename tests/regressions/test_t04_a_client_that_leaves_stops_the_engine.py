"""T4: the client had gone, and the engine went on generating: without a stream, in one, and before the first byte."""

import asyncio
import json

import pytest

from tests.e2e.kit import chat, eventually
from tests.regressions.kit import in_flight, post, raw_client


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["Hello", "A long one. " * 4000], ids=["generating", "prefill"])
async def test_the_engine_stops_when_the_client_has_gone(fleet, route, stream, prompt):
    [server] = await fleet(time_scale=0.05)  # an answer would take minutes
    router = await route(server)
    await router.know("sim/llama-8b")
    client = await raw_client(router)
    await client.send(post(json.dumps(chat(prompt, stream=stream, max_tokens=400, ignore_eos=True)).encode()))
    await eventually(lambda: server.core.inference_in_flight == 1)
    client.leave()
    await eventually(lambda: server.core.inference_in_flight == 0)

    async def none():
        return await in_flight(router) == 0

    async with asyncio.timeout(10):
        await eventually(none)
    [decision] = await router.decisions(1)

    assert decision["reason"] == "client_disconnected"
