"""`/v1/messages` of the simulated server: Anthropic's shapes, as vLLM gives them."""

import asyncio

import pytest

from tests.simserver.kit import eventually
from tests.simserver.test_responses import named_events


@pytest.fixture
async def client(launch, connect):
    return await connect(await launch(answer_tokens=(3, 3)))


def body(text="hello", **fields):
    return {
        "model": "sim/llama-8b",
        "max_tokens": 8,
        "messages": [{"role": "user", "content": text}],
        **fields,
    }


async def test_a_message_has_text_a_reason_and_usage(client):
    message = (await client.post("/v1/messages", json=body())).json()

    assert (message["type"], message["role"], message["stop_reason"]) == ("message", "assistant", "end_turn")
    assert [block["type"] for block in message["content"]] == ["text"]
    assert message["usage"]["output_tokens"] == 3


async def test_a_message_that_runs_into_its_limit_says_so(client):
    message = (await client.post("/v1/messages", json=body(max_tokens=2))).json()
    assert message["stop_reason"] == "max_tokens"


async def test_input_tokens_leave_out_what_the_cache_gave(client):
    text = "The quick brown fox jumps over the lazy dog. " * 20
    first = (await client.post("/v1/messages", json=body(text))).json()["usage"]
    again = (await client.post("/v1/messages", json=body(text))).json()["usage"]
    counted = (await client.post("/v1/messages/count_tokens", json=body(text))).json()

    assert first["cache_read_input_tokens"] == 0
    assert again["cache_read_input_tokens"] > 150
    assert again["input_tokens"] + again["cache_read_input_tokens"] == first["input_tokens"]
    assert counted == {
        "input_tokens": first["input_tokens"],
        "context_management": {"original_input_tokens": first["input_tokens"]},
    }


async def test_without_details_of_the_prompt_all_input_tokens_are_told(launch, connect):
    client = await connect(await launch(prompt_tokens_details=False))
    usage = (await client.post("/v1/messages", json=body())).json()["usage"]

    assert set(usage) == {"input_tokens", "output_tokens"}


async def test_the_system_text_and_tools_are_part_of_the_prompt(client):
    async def tokens(**fields):
        return (await client.post("/v1/messages/count_tokens", json=body(**fields))).json()["input_tokens"]

    tool = {"name": "weather", "input_schema": {"type": "object"}}
    assert await tokens() < await tokens(system="Be brief.") < await tokens(system="Be brief.", tools=[tool])


async def test_the_events_of_a_stream_come_in_anthropics_order(client):
    answer = await client.post("/v1/messages", json=body(stream=True))
    found = named_events(answer.text)

    assert [name for name, _ in found] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(data["type"] == name for name, data in found)
    assert found[0][1]["message"]["usage"]["input_tokens"] > 0
    assert found[-2][1]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert found[-2][1]["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_errors_have_anthropics_shape(client, path):
    answer = await client.post(path, json=body(model="nope"))

    assert answer.status_code == 404
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "NotFoundError"


async def test_max_tokens_is_required(client):
    data = body()
    del data["max_tokens"]
    answer = await client.post("/v1/messages", json=data)

    assert answer.status_code == 400
    assert "body.max_tokens" in answer.json()["error"]["message"]


async def test_an_engine_that_dies_ends_a_stream_with_an_error_event(launch, connect):
    server = await launch(time_scale=1.0)
    client = await connect(server)
    sending = client.post("/v1/messages", json=body(stream=True, max_tokens=4000, ignore_eos=True))
    streaming = asyncio.create_task(sending)
    await eventually(lambda: server.core.engine.live_requests == 1)
    server.fail_engine()
    name, data = named_events((await streaming).text)[-1]

    assert (name, data["type"]) == ("error", "error")
