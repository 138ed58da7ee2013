"""Models that a rule replaced: bodies and answers that came out as others, or told the internal name.

A07 (any-llm i1106, Guardrails i2060): a body built anew. A08 (LR p1426, GIE p2757): a missing model refused before a
rule could give one. A21 (GIE p2769): the internal name in answers.
"""

import asyncio
import gzip
import json

import pytest

from epp.config.model_rewrites import ANY_MODEL, ModelRewrite

CHAT = "/v1/chat/completions"
BODY = (
    rb'{ "x":{"model":"m"}, "model" : "%b","seed":9007199254740993,"temperature":1e-7 ,"messages":[],'
    rb'"extra_body":{"x":[null]},"chat_template_kwargs":{}}' + b"\n\t "
)
ANSWER = (
    b'{"id":"1", "model" : "%b","choices":[{"message":{"content":"I am \\"model\\":\\"m-v2\\"","n":1e-7}}]}'
)
STREAM = b"".join(
    b'data: {"id":"c","model":"%%b","choices":[{"delta":{"content":"%d, m-v2"}}]}\n\n' % n for n in range(4)
)


@pytest.fixture
async def rewriting(scripted, route):
    """A scripted endpoint that serves m, and a router that sends requests for `old` there."""
    [endpoint] = await scripted()
    router = await route(endpoint, model_rewrite=(ModelRewrite("old", (("m", 1),)),))
    await router.know("m")
    return endpoint, router


@pytest.mark.parametrize("coding", [None, "gzip"])
async def test_a07_a_rewrite_changes_the_value_of_the_model_alone(rewriting, coding):
    endpoint, router = rewriting
    body, headers = BODY % b"old", {"content-type": "application/json"}
    if coding:
        body, headers = gzip.compress(body), {**headers, "content-encoding": coding}
    asking = asyncio.create_task(router.client.post(CHAT, content=body, headers=headers))
    call = await endpoint.call()
    await call.answer()
    await asking

    assert call.asked.body == BODY % b"m"
    assert call.asked.headers["content-length"] == str(len(BODY % b"m"))
    assert "content-encoding" not in call.asked.headers


async def test_a21_the_name_in_an_answer_is_what_the_client_asked_for(rewriting):
    endpoint, router = rewriting
    asking = asyncio.create_task(router.client.post(CHAT, json={"model": "old", "messages": []}))
    call = await endpoint.call()
    await call.answer(ANSWER % b"m")
    answer = await asking
    [decision] = await router.decisions(1)

    assert answer.content == ANSWER % b"old"
    assert answer.headers["content-length"] == str(len(ANSWER % b"old"))
    assert (decision["model"], decision["target_model"]) == ("old", "m")
    assert (decision["receipt"]["requested_model"], decision["receipt"]["model"]) == ("old", "m")


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
async def test_a21_so_it_is_in_every_event_of_a_stream_however_it_is_cut(rewriting, size):
    endpoint, router = rewriting
    request = {"model": "old", "messages": [], "stream": True}
    asking = asyncio.create_task(router.client.post(CHAT, json=request))
    call = await endpoint.call()
    sent = STREAM.replace(b"%b", b"m") + b"data: [DONE]\n\n"
    await call.stream(*(sent[at : at + size] for at in range(0, len(sent), size)))
    await call.end()
    answer = await asking

    assert answer.content == STREAM.replace(b"%b", b"old") + b"data: [DONE]\n\n"


async def test_a21_an_event_goes_to_the_client_before_the_next_comes(rewriting):
    endpoint, router = rewriting
    event, expected = b'data: {"model":"m","n":1}\n\n', b'data: {"model":"old","n":1}\n\n'
    calling = asyncio.create_task(endpoint.call())
    sending = asyncio.create_task(_first_event(calling, event))
    request = {"model": "old", "messages": [], "stream": True}
    async with router.client.stream("POST", CHAT, json=request) as answer:
        pieces = answer.aiter_bytes()
        call = await sending
        assert await anext(pieces) == expected
        for _ in range(3):
            await call.events(event)
            assert await anext(pieces) == expected
        await call.end()


async def _first_event(calling, event):
    call = await calling
    await call.stream(event)
    return call


async def test_a21_an_error_of_the_endpoint_passes_as_it_is(rewriting):
    endpoint, router = rewriting
    asking = asyncio.create_task(router.client.post(CHAT, json={"model": "old", "messages": []}))
    call = await endpoint.call()
    await call.answer(b'{"model":"m","error":"no"}', b"400 Bad Request")

    assert (await asking).content == b'{"model":"m","error":"no"}'


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b'{"messages":[]}', b'{"model":"m","messages":[]}'),
        (b'{"model":null,"messages":[]}', b'{"model":"m","messages":[]}'),
        (b'{"messages":[],"model":""}', b'{"messages":[],"model":"m"}'),
    ],
)
async def test_a08_a_rule_for_any_model_gives_one_to_a_request_without(scripted, route, body, sent):
    [endpoint] = await scripted()
    router = await route(endpoint, model_rewrite=(ModelRewrite(ANY_MODEL, (("m", 1),)),))
    asking = asyncio.create_task(
        router.client.post(CHAT, content=body, headers={"content-type": "application/json"})
    )
    call = await endpoint.call()
    await call.answer(ANSWER % b"m")
    answer = await asking

    assert call.asked.body == sent
    assert answer.content == ANSWER % b"m"


async def test_a21_a_pick_for_somebody_else_tells_the_name_to_send(rewriting):
    _, router = rewriting
    answer = await router.client.post("/pick", json={"model": "old", "messages": []})

    assert answer.json()["model"] == "m"


async def test_a21_who_may_see_receipts_is_told_of_the_rewrite(rewriting):
    endpoint, router = rewriting
    asking = asyncio.create_task(
        router.client.post(CHAT, json={"model": "old", "messages": []}, headers={"x-epp-explain": "1"})
    )
    call = await endpoint.call()
    await call.answer(json.dumps({"model": "m"}).encode())
    answer = await asking
    page = (await router.client.get("/metrics")).text

    assert " model=m " in answer.headers["x-epp-decision"]
    labels = 'model_rewrite_name="settings",model_name="old",target_model="m"'
    assert f"llm_d_epp_model_rewrite_decisions_total{{{labels}}} 1" in page
