"""K02 (LR p1612): requests that were dropped at shutdown got 500."""

from tests.proxy.conftest import new_stage
from tests.proxy.harness import post


async def test_a_request_that_waits_at_exit_gets_503_with_the_reason():
    async with new_stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()

        s.relay.shut_down()

        response = await client.read_response()
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
