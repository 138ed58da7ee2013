"""Bodies that other routers refused, or built anew and changed.

A02 (GIE i790): chat without `prompt`. A04 (GIE i2835, SG p35262): token ids. A07 (any-llm i1106): unknown fields and
large numbers. A17 (Rapid-MLX p730): a lone surrogate. A18 (AX p1850): odd values of `stream`.
"""

import asyncio

import pytest

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
BODIES = {
    "a02": [(CHAT, rb'{"model":"m","messages":[{"role":"user","content":"hi"}]}')],
    "a04": [
        (COMPLETIONS, rb'{"model":"m","prompt":[1,2,3]}'),
        (COMPLETIONS, rb'{"model":"m","prompt":[[1,2],[3]]}'),
    ],
    "a07": [
        (
            CHAT,
            rb'{ "model" : "m","seed":9007199254740993,"temperature":1e-7 ,"messages":[],'
            rb'"extra_body":{"x":[null]},"chat_template_kwargs":{}}' + b"\n\t ",
        )
    ],
    "a17": [
        (COMPLETIONS, rb'{"model":"m","prompt":"\ud800abc"}'),
        (CHAT, rb'{"model":"m","messages":[{"role":"user","content":"\udfff"}]}'),
        (COMPLETIONS, rb'{"model":"m","prompt":["\ud83d","\ude00"],"cache_salt":"\ud800"}'),
    ],
    "a18": [
        (path, b'{"model":"m","stream":%b,"prompt":"a","messages":[]}' % value)
        for path in (CHAT, COMPLETIONS)
        for value in (b"null", b'"true"', b"1", b"0", b"{}")
    ],
}


@pytest.mark.parametrize("row", sorted(BODIES))
async def test_the_endpoint_gets_the_bytes_that_the_client_sent(stage, row):
    endpoint, router = stage
    for path, body in BODIES[row]:
        answer = await router.client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200

    assert [(asked.path, asked.body) for asked in endpoint.relayed()] == BODIES[row]


async def test_a18_whether_it_is_a_stream_is_told_by_the_answer_and_not_by_the_request(theatre):
    endpoint, router = theatre
    asking = asyncio.create_task(router.client.post(CHAT, json={"messages": [], "stream": False}))
    call = await endpoint.call()
    await call.stream(b'data: {"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n', b"data: [DONE]\n\n")
    await call.end()
    answer = await asking
    [decision] = await router.decisions(1)

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text.endswith("data: [DONE]\n\n")
    assert (decision["prompt_tokens"], decision["completion_tokens"]) == (7, 3)
