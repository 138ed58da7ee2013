"""The real `anthropic` client against the router in front of simulated servers."""

import anthropic
import pytest

from tests.e2e.kit import LONG_TEXT

MODEL = "sim/llama-8b"
MESSAGES = [{"role": "user", "content": "What is the capital of Vietnam?"}]


@pytest.fixture
async def stage(fleet, route, stack):
    """Two servers, a router that knows their model, and a client."""
    servers = await fleet(2, answer_tokens=(5, 5))
    router = await route(*servers)
    await router.know(MODEL)
    http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
    client = anthropic.AsyncAnthropic(api_key="k", base_url=router.url, http_client=http, max_retries=0)
    return servers, router, await stack.enter_async_context(client)


def create(client, messages=MESSAGES, **fields):
    return client.messages.create(model=MODEL, max_tokens=50, messages=messages, **fields)


async def test_a_message_is_answered(stage):
    servers, _, client = stage
    raw = await client.messages.with_raw_response.create(model=MODEL, max_tokens=50, messages=MESSAGES)
    message = await raw.parse()

    assert raw.headers["x-epp-endpoint"] in {server.address for server in servers}
    assert len(message.content[0].text.split()) == 5
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 5)


async def test_headers_of_the_client_reach_the_endpoint(stage):
    servers, _, client = stage
    await create(client)
    [seen] = [seen for server in servers for seen in server.core.seen]
    headers = dict(seen.headers)

    # Which of the two it is depends on the library's version.
    assert b"k" in {headers.get(b"x-api-key"), headers.get(b"authorization", b"").removeprefix(b"Bearer ")}
    assert headers[b"anthropic-version"]


async def test_a_stream_comes_event_by_event_and_the_router_reads_its_usage(stage):
    _, router, client = stage
    async with client.messages.stream(model=MODEL, max_tokens=50, messages=MESSAGES) as stream:
        pieces = [piece async for piece in stream.text_stream]
        message = await stream.get_final_message()
    [decision] = await router.decisions(1)

    assert len(pieces) == 5
    assert message.content[0].text == "".join(pieces)
    assert message.stop_reason == "end_turn"
    assert (decision["completion_tokens"], decision["stream"]) == (5, True)


async def test_a_conversation_finds_its_prefix_again(stage):
    _, router, client = stage
    system = [{"type": "text", "text": LONG_TEXT, "cache_control": {"type": "ephemeral"}}]
    first = await create(client, system=system)
    answer = {"role": "assistant", "content": first.content[0].text}
    longer = [*MESSAGES, answer, {"role": "user", "content": "And of Laos?"}]
    second = await create(client, longer, system=LONG_TEXT)
    opening, following = await router.decisions(2)

    assert following["endpoint"] == opening["endpoint"]
    assert (opening["predicted_gpu"], first.usage.cache_read_input_tokens) == (0, 0)
    assert following["predicted_gpu"] > 1000
    assert second.usage.cache_read_input_tokens > 1000
    # The router counts the whole prompt: what Anthropic calls input leaves out what the cache gave.
    assert following["prompt_tokens"] == second.usage.input_tokens + second.usage.cache_read_input_tokens


async def test_counting_tokens_goes_to_an_endpoint_and_leaves_nothing_in_the_index(stage):
    _, router, client = stage
    counted = await client.messages.count_tokens(
        model=MODEL, messages=[{"role": "user", "content": LONG_TEXT}]
    )
    await create(client, [{"role": "user", "content": LONG_TEXT}])
    decisions = await router.decisions(2)

    assert counted.input_tokens > 2000
    assert [d["predicted_gpu"] for d in decisions] == [0, 0]


async def test_an_unknown_model_is_the_clients_not_found_error(stage):
    servers, _, client = stage

    with pytest.raises(anthropic.NotFoundError, match="model 'claude-17' does not exist") as raised:
        await client.messages.create(model="claude-17", max_tokens=5, messages=MESSAGES)

    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"] == "invalid_request_error"
    assert [seen for server in servers for seen in server.core.seen] == []


async def test_an_error_of_the_endpoint_keeps_anthropics_shape(stage):
    _, _, client = stage

    with pytest.raises(anthropic.BadRequestError) as raised:
        await client.messages.create(model=MODEL, max_tokens=10**6, messages=MESSAGES, timeout=20)

    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"] == "BadRequestError"
