"""The real `openai` client against the router in front of simulated servers."""

import asyncio
import json

import httpx
import openai
import pytest

from tests.e2e.kit import eventually, free_port

MESSAGES = [{"role": "user", "content": "What is the capital of Vietnam?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture
async def stage(fleet, route, sdk):
    """One server, a router that knows its model, and a client."""
    [server] = await fleet(answer_tokens=(12, 12))
    router = await route(server)
    await router.know("sim/llama-8b")
    return server, router, await sdk(router)


async def test_a_chat_is_answered_by_the_endpoint_that_the_header_names(stage):
    server, _, client = stage

    raw = await client.chat.completions.with_raw_response.create(model="sim/llama-8b", messages=MESSAGES)
    answer = raw.parse()

    assert raw.headers["x-epp-endpoint"] == server.address
    assert raw.headers["x-request-id"]
    assert answer.choices[0].finish_reason == "stop"
    assert len(answer.choices[0].message.content.split()) == 12
    assert answer.usage.completion_tokens == 12


async def test_the_clients_request_id_comes_back(stage):
    _, _, client = stage

    raw = await client.chat.completions.with_raw_response.create(
        model="sim/llama-8b", messages=MESSAGES, extra_headers={"x-request-id": "mine-17"}
    )

    assert raw.headers["x-request-id"] == "mine-17"


async def test_the_synchronous_client_works_too(stage):
    _, router, _ = stage

    def ask():
        with (
            httpx.Client(trust_env=False) as http,
            openai.OpenAI(api_key="sk-x", base_url=f"{router.url}/v1", http_client=http) as client,
        ):
            return client.chat.completions.create(model="sim/llama-8b", messages=MESSAGES, max_tokens=3)

    answer = await asyncio.to_thread(ask)

    assert answer.usage.completion_tokens == 3


async def test_a_stream_without_usage_has_text_in_every_event_but_the_first(stage):
    _, _, client = stage

    stream = await client.chat.completions.create(model="sim/llama-8b", messages=MESSAGES, stream=True)
    chunks = [chunk async for chunk in stream]

    assert chunks[0].choices[0].delta.role == "assistant"
    assert len("".join(chunk.choices[0].delta.content for chunk in chunks).split()) == 12
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert {chunk.usage for chunk in chunks} == {None}


async def test_a_stream_with_usage_ends_with_it_and_the_router_reads_it_too(stage):
    _, router, client = stage

    stream = await client.chat.completions.create(
        model="sim/llama-8b", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    [decision] = await router.decisions(1)

    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 12
    assert decision["completion_tokens"] == 12
    assert decision["stream"] is True


async def test_a_completion_takes_text(stage):
    _, _, client = stage

    answer = await client.completions.create(model="sim/llama-8b", prompt="Once upon a time", max_tokens=5)

    assert len(answer.choices[0].text.split()) == 5


async def test_a_list_of_prompts_gets_a_choice_for_each(stage):
    _, _, client = stage

    answer = await client.completions.create(
        model="sim/llama-8b", prompt=["One", "Two", "Three"], max_tokens=2
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2]


async def test_a_prompt_of_token_ids_is_counted_and_found_again_by_its_ids(stage):
    _, router, client = stage
    ids = list(range(1000, 1640))

    first = await client.completions.create(model="sim/llama-8b", prompt=ids, max_tokens=1)
    again = await client.completions.create(model="sim/llama-8b", prompt=[ids], max_tokens=1)
    decisions = await router.decisions(2)

    assert [first.usage.prompt_tokens, again.usage.prompt_tokens] == [640, 640]
    assert [d["prompt_tokens_estimated"] for d in decisions] == [640, 640]
    # 640 tokens are ten blocks of 64 in the index; at least the last token is computed, in units of 16.
    assert [d["predicted_gpu"] for d in decisions] == [0, 624]
    assert again.usage.prompt_tokens_details.cached_tokens == 624


async def test_tools_arrive_as_they_were_sent(stage):
    server, _, client = stage

    await client.chat.completions.create(
        model="sim/llama-8b", messages=MESSAGES, tools=[WEATHER], tool_choice="auto", max_tokens=2
    )
    sent = json.loads(server.core.seen[-1].body)

    assert sent == {
        "model": "sim/llama-8b",
        "messages": MESSAGES,
        "tools": [WEATHER],
        "tool_choice": "auto",
        "max_tokens": 2,
    }


async def test_several_models_behind_one_router_go_where_they_are_served(fleet, route, sdk):
    small, large = (await fleet(model="small"))[0], (await fleet(model="large"))[0]
    router = await route(small, large)
    await router.know("small", "large")
    client = await sdk(router)

    listed = [model.id async for model in client.models.list()]
    served = {}
    for model in ("small", "large", "small", "large"):
        raw = await client.chat.completions.with_raw_response.create(
            model=model, messages=MESSAGES, max_tokens=1
        )
        served.setdefault(model, set()).add(raw.headers["x-epp-endpoint"])

    assert sorted(listed) == ["large", "small"]
    assert served == {"small": {small.address}, "large": {large.address}}


async def test_a_request_without_model_is_refused_where_several_are_served(fleet, route):
    small, large = (await fleet(model="small"))[0], (await fleet(model="large"))[0]
    router = await route(small, large)
    await router.know("small", "large")

    answer = await router.chat()

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"
    assert "this pool serves small, large" in answer.json()["error"]["message"]


async def test_an_adapter_goes_to_the_servers_that_have_it(fleet, route, sdk):
    [plain] = await fleet()
    [adapted] = await fleet(lora=("support",))
    router = await route(plain, adapted)
    await router.know("support")
    client = await sdk(router)

    listed = {model.id: model.model_dump().get("parent") async for model in client.models.list()}
    raw = await client.chat.completions.with_raw_response.create(
        model="support", messages=MESSAGES, max_tokens=1
    )
    [decision] = await router.decisions(1)

    assert listed == {"sim/llama-8b": None, "support": "sim/llama-8b"}
    assert raw.headers["x-epp-endpoint"] == adapted.address
    assert raw.parse().model == "support"
    assert decision["adapter"] == "support"


async def test_an_unknown_model_is_the_clients_not_found_error(stage):
    server, _, client = stage

    with pytest.raises(openai.NotFoundError) as raised:
        await client.chat.completions.create(model="gpt-17", messages=MESSAGES)

    assert raised.value.code == "model_not_found"
    assert raised.value.param == "model"
    assert raised.value.body["message"] == "model 'gpt-17' does not exist"
    assert list(server.core.seen) == []


async def test_an_error_of_the_endpoint_passes_as_it_is(stage):
    server, _, client = stage

    with pytest.raises(openai.BadRequestError) as raised:
        await client.chat.completions.create(model="sim/llama-8b", messages=MESSAGES, max_tokens=10**6)

    assert raised.value.response.headers["x-epp-endpoint"] == server.address
    assert raised.value.body["type"] == "BadRequestError"


async def test_a_body_that_is_no_json_is_the_clients_bad_request_error(stage):
    _, _, client = stage

    with pytest.raises(openai.BadRequestError) as raised:
        await client.post("/chat/completions", content=b"{", cast_to=object, options={"headers": {}})

    assert raised.value.type == "invalid_request_error"
    assert raised.value.response.headers["x-request-id"]


async def test_without_a_reachable_endpoint_the_client_gets_an_error_with_a_reason(route, sdk):
    router = await route(f"http://127.0.0.1:{free_port()}")
    client = await sdk(router)

    with pytest.raises(openai.InternalServerError) as raised:
        await client.chat.completions.create(model="any", messages=MESSAGES)

    assert raised.value.status_code == 502
    assert raised.value.code == "upstream_connect_failed"
    assert raised.value.response.headers["x-llm-d-request-dropped-reason"] == "upstream-connect-failed"


async def test_a_client_that_leaves_a_stream_frees_the_server(fleet, route, sdk):
    [server] = await fleet(time_scale=1.0)
    router = await route(server)
    client = await sdk(router)

    stream = await client.chat.completions.create(
        model="sim/llama-8b", messages=MESSAGES, stream=True, max_tokens=4000
    )
    await anext(aiter(stream))
    assert server.core.engine.live_requests == 1
    await stream.close()
    [decision] = await router.decisions(1)

    await eventually(lambda: server.core.engine.live_requests == 0)
    assert decision["reason"] == "client_disconnected"
    assert await router.sample("epp_inflight_requests") == 0


async def test_a_client_that_leaves_before_the_first_byte_frees_the_server(fleet, route):
    [server] = await fleet()
    router = await route(server)
    server.core.faults.add("hang")

    asking = asyncio.create_task(router.chat())
    await eventually(lambda: len(server.core.faults) == 0)
    asking.cancel()
    [decision] = await router.decisions(1)

    assert decision["reason"] == "client_disconnected"
    assert "status" not in decision
