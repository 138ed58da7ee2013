"""T15: a server died in the middle of a stream, and the client got `[DONE]`, or nothing at all."""

import json

import httpx
import pytest

from epp.config.settings import StreamSettings
from tests.e2e.kit import chat


@pytest.mark.parametrize("fault", ["reset-after=3", "truncate=3"])
@pytest.mark.parametrize("told", [False, True])
async def test_it_is_cut_and_with_the_setting_an_error_event_comes_before(fleet, route, fault, told):
    [server] = await fleet()
    router = await route(server, stream=StreamSettings(error_event=told))
    await router.know("sim/llama-8b")
    server.core.faults.add(fault)
    got = bytearray()

    async def read():
        async with router.client.stream(
            "POST", "/v1/chat/completions", json=chat(stream=True, max_tokens=20)
        ) as answer:
            assert answer.status_code == 200
            async for piece in answer.aiter_raw():
                got.extend(piece)

    with pytest.raises(httpx.RemoteProtocolError):
        await read()
    [decision] = await router.decisions(1)
    errors = [block for block in got.split(b"\n\n") if block.startswith(b"event: error\n")]

    assert got.startswith(b"data: {")
    assert b"[DONE]" not in got
    assert len(errors) == told
    assert [json.loads(error.partition(b"data: ")[2])["error"]["type"] for error in errors] == [
        "upstream_error"
    ] * told
    assert decision["reason"] == "upstream_aborted"
