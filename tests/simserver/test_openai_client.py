"""The client that most programs use, against the simulated server."""

import openai
import pytest


@pytest.fixture
async def client(launch):
    server = await launch(lora=("fine-tuned",))
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_chat(client):
    reply = await client.chat.completions.create(
        model="sim/llama-8b", messages=[{"role": "user", "content": "hi"}], max_tokens=3
    )

    assert reply.choices[0].message.role == "assistant"
    assert reply.usage.completion_tokens == 3
    assert reply.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_chat_stream_with_usage(client):
    stream = await client.chat.completions.create(
        model="fine-tuned",
        messages=[{"role": "user", "content": "hi"}],
        max_tokens=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]

    assert next(chunk.choices[0].delta.role for chunk in chunks if chunk.choices) == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 3


async def test_completions_of_several_prompts(client):
    reply = await client.completions.create(model="sim/llama-8b", prompt=["a", "b"], max_tokens=2)

    assert [choice.index for choice in reply.choices] == [0, 1]


async def test_models(client):
    assert [model.id async for model in client.models.list()] == ["sim/llama-8b", "fine-tuned"]


async def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError, match="The model `nope` does not exist"):
        await client.completions.create(model="nope", prompt="a")


async def test_an_error_event_in_a_stream_is_raised(client):
    stream = await client.completions.create(
        model="sim/llama-8b", prompt="a", stream=True, extra_headers={"x-sim-fault": "error-event=2"}
    )

    with pytest.raises(openai.APIError, match="EngineCore encountered an issue"):
        [chunk async for chunk in stream]
