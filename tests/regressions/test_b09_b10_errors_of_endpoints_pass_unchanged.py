"""B09 (vllm-ascend i12166): a refused stream was 200 without a body. B10 (AX p2594): an error was wrapped in another."""

import asyncio

import pytest

ERROR = b'{"error":{"message":"x","type":"BadRequestError","param":null,"code":400}}'


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "status", [b"400 Bad Request", b"422 Unprocessable Entity", b"429 Too Many Requests", b"500 Oh"]
)
async def test_status_and_body_are_those_of_the_endpoint(theatre, status, stream):
    endpoint, router = theatre
    asking = asyncio.create_task(
        router.client.post("/v1/chat/completions", json={"model": "m", "messages": [], "stream": stream})
    )
    call = await endpoint.call()
    await call.answer(ERROR, status)
    answer = await asking

    assert answer.status_code == int(status[:3])
    assert answer.content == ERROR
    assert answer.headers["content-type"] == "application/json"
    assert len(endpoint.relayed()) == 1
