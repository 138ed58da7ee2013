"""K02 (LR p1612): requests that were dropped at shutdown got 500."""

import asyncio
import signal

from tests.proxy.conftest import new_stage
from tests.proxy.harness import post
from tests.regressions.kit import raw_client


async def test_a_request_that_waits_at_exit_gets_503_with_the_reason(theatre):
    endpoint, router = theatre
    async with await raw_client(router) as client:
        await client.send(post())
        await endpoint.call()
        for _ in range(2):  # the first signal drains, the second does not wait
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
        response = await client.read_response()
    await asyncio.wait_for(router.serving, 10)

    assert response.status == 503
    assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-shutting-down"
    assert response.value(b"retry-after") == b"1"


async def test_a_request_that_comes_after_it_gets_the_same():
    async with new_stage() as s, await s.client() as client:
        s.relay.shut_down()
        await client.send(post())

        response = await client.read_response()
        assert response.status == 503
        assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-shutting-down"
