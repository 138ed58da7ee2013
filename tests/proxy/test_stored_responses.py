"""The name of a response that the endpoint stores is told before the client can use it."""

import pytest

from epp.request import Api, InferenceRequest
from tests.proxy.harness import post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer

EVENT = b'event: response.created\ndata: {"response":{"id":"resp_1"},"type":"response.created"}\n\n'
ERROR = b'{"id":"resp_1","error":{"message":"no"}}'


def request(api):
    return InferenceRequest(api, "m", "", (), stream=False, body_bytes=2)


async def test_the_first_event_of_a_stream_is_enough(stage):
    async with stage() as s, await s.client() as client:
        s.director.request = request(Api.RESPONSES)
        await client.send(post(path=b"/v1/responses"))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(EVENT))
        await client.read_head()
        await client.read_chunk()
        assert ("stored", "resp_1") in s.director.calls
        await endpoint.send(LAST_CHUNK)


@pytest.mark.parametrize(
    "api, status, stored",
    [
        (Api.RESPONSES, b"200 OK", True),
        (Api.RESPONSES, b"404 Not Found", False),
        (Api.CHAT, b"200 OK", False),
    ],
)
async def test_only_a_2xx_answer_to_a_responses_request_stores_one(stage, api, status, stored):
    async with stage() as s, await s.client() as client:
        s.director.request = request(api)
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(ERROR, status))
        await client.read_response()
        assert (("stored", "resp_1") in s.director.calls) is stored
