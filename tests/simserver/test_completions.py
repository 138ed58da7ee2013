"""Prompts in every form, choices, limits, usage."""

import pytest

from tests.simserver.kit import chat, events


async def post(client, path="/v1/completions", **body):
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response


# -------------------------------------------------------------------- forms of a prompt


@pytest.mark.parametrize(
    ("prompt", "prompt_tokens", "choices"),
    [
        ([1, 2, 3], 3, 1),
        ([[1, 2, 3], [4, 5]], 5, 2),
    ],
)
async def test_token_ids_are_taken_as_they_are(launch, connect, prompt, prompt_tokens, choices):
    client = await connect(await launch())
    body = (await post(client, prompt=prompt, max_tokens=2)).json()

    assert body["usage"]["prompt_tokens"] == prompt_tokens
    assert [choice["index"] for choice in body["choices"]] == list(range(choices))


async def test_a_list_of_strings_is_several_prompts(launch, connect):
    client = await connect(await launch())
    one = (await post(client, prompt="hello there", max_tokens=3)).json()
    two = (await post(client, prompt=["hello there", "hello there"], max_tokens=3)).json()

    assert two["usage"]["prompt_tokens"] == 2 * one["usage"]["prompt_tokens"]
    assert [choice["text"] for choice in two["choices"]] == [one["choices"][0]["text"]] * 2


async def test_choices_of_a_prompt_differ_and_follow_each_other(launch, connect):
    client = await connect(await launch())
    body = (await post(client, prompt=["a", "b"], n=2, max_tokens=3)).json()

    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in body["choices"]}) == 4
    assert body["usage"]["completion_tokens"] == 12


async def test_echo_puts_the_prompt_before_the_text(launch, connect):
    client = await connect(await launch())
    plain = (await post(client, prompt="once upon a time", max_tokens=3)).json()
    echo = (await post(client, prompt="once upon a time", max_tokens=3, echo=True)).json()

    assert echo["choices"][0]["text"] == "once upon a time" + plain["choices"][0]["text"]


async def test_echo_of_token_ids_is_their_text(launch, connect):
    client = await connect(await launch())
    tokens = (await client.post("/tokenize", json={"prompt": "once upon"})).json()["tokens"]
    body = (await post(client, prompt=tokens, max_tokens=1, echo=True)).json()

    assert body["choices"][0]["text"].startswith("once upon ")


async def test_messages_may_be_parts_tools_and_images(launch, connect):
    client = await connect(await launch())
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "https://example.test/cat.png"}},
    ]
    image = (await post(client, "/v1/chat/completions", **chat(content))).json()["usage"]["prompt_tokens"]
    text = (await post(client, "/v1/chat/completions", **chat("what is this?"))).json()["usage"][
        "prompt_tokens"
    ]

    assert image > text + 100


# -------------------------------------------------------------------- length


async def test_a_completion_has_16_tokens_unless_told(launch, connect):
    client = await connect(await launch())
    body = (await post(client, prompt="hello")).json()

    assert body["usage"]["completion_tokens"] == 16
    assert body["choices"][0]["finish_reason"] == "length"


async def test_a_chat_ends_by_itself_within_the_given_range(launch, connect):
    client = await connect(await launch(answer_tokens=(5, 5)))
    body = (await post(client, "/v1/chat/completions", messages=[{"role": "user", "content": "hi"}])).json()

    assert body["usage"]["completion_tokens"] == 5
    assert body["choices"][0]["finish_reason"] == "stop"


async def test_ignore_eos_runs_to_the_limit(launch, connect):
    client = await connect(await launch(answer_tokens=(5, 5)))
    body = (await post(client, prompt="hi", max_tokens=9, ignore_eos=True)).json()

    assert body["usage"]["completion_tokens"] == 9
    assert body["choices"][0]["finish_reason"] == "length"


async def test_max_completion_tokens_goes_before_max_tokens(launch, connect):
    client = await connect(await launch())
    body = (await post(client, "/v1/chat/completions", **chat(max_completion_tokens=2, max_tokens=9))).json()

    assert body["usage"]["completion_tokens"] == 2


# -------------------------------------------------------------------- text


async def test_the_same_request_gets_the_same_text(launch, connect):
    first, second = await connect(await launch()), await connect(await launch())
    texts = [
        (await post(client, prompt="hello", max_tokens=8)).json()["choices"] for client in (first, second)
    ]

    assert texts[0] == texts[1]


async def test_a_seed_changes_the_text(launch, connect):
    client = await connect(await launch())
    plain = (await post(client, prompt="hello", max_tokens=8)).json()
    seeded = (await post(client, prompt="hello", max_tokens=8, seed=7)).json()

    assert plain["choices"] != seeded["choices"]


async def test_the_text_has_as_many_tokens_as_usage_tells(launch, connect):
    client = await connect(await launch())
    body = (await post(client, prompt="hello", max_tokens=40)).json()
    counted = (await client.post("/tokenize", json={"prompt": body["choices"][0]["text"]})).json()["count"]

    assert counted == body["usage"]["completion_tokens"] == 40


async def test_detokenize_undoes_tokenize(launch, connect):
    client = await connect(await launch())
    text = "Xin chào, 你好, def f(x): return x  # naïve"
    tokens = (await client.post("/tokenize", json={"prompt": text})).json()["tokens"]

    assert (await client.post("/detokenize", json={"tokens": tokens})).json() == {"prompt": text}


async def test_tokenize_of_messages_counts_the_template(launch, connect):
    client = await connect(await launch())
    plain = (await client.post("/tokenize", json={"prompt": "hello"})).json()["count"]
    templated = (await client.post("/tokenize", json=chat())).json()["count"]
    used = (await post(client, "/v1/chat/completions", **chat())).json()["usage"]["prompt_tokens"]

    assert templated == used > plain


# -------------------------------------------------------------------- streams


async def test_a_stream_and_a_reply_have_the_same_text_and_usage(launch, connect):
    client = await connect(await launch())
    body = {"prompt": ["hello", "good bye"], "n": 2, "max_tokens": 5}
    reply = (await post(client, **body)).json()
    text = (await post(client, **body, stream=True, stream_options={"include_usage": True})).text
    *chunks, usage, done = events(text)
    texts = dict.fromkeys(range(4), "")
    for chunk in chunks:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]

    assert texts == {choice["index"]: choice["text"] for choice in reply["choices"]}
    assert usage["usage"]["total_tokens"] == reply["usage"]["total_tokens"]
    assert done == "[DONE]"


async def test_a_completion_chunk_has_vllms_keys(launch, connect):
    client = await connect(await launch())
    first, last, _ = events((await post(client, prompt="hi", max_tokens=2, stream=True)).text)

    assert list(first) == ["id", "object", "created", "model", "choices"]
    assert list(first["choices"][0]) == [
        "index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"
    ]  # fmt: skip
    assert list(last) == ["id", "object", "created", "model", "choices", "system_fingerprint"]


async def test_every_chat_choice_begins_with_its_role(launch, connect):
    client = await connect(await launch())
    chunks = events((await post(client, "/v1/chat/completions", **chat(stream=True, n=2))).text)

    assert [chunk["choices"][0]["delta"] for chunk in chunks[:2]] == [
        {"role": "assistant", "content": ""}
    ] * 2
    assert [chunk["choices"][0]["index"] for chunk in chunks[:2]] == [0, 1]


@pytest.mark.parametrize(("settings", "field"), [({"stream_interval": 4}, {}), ({}, {"stream_interval": 4})])
async def test_an_interval_puts_several_tokens_in_a_chunk(launch, connect, settings, field):
    """Of 11 tokens the first and the last go at once: 1 + 4 + 4 + 2."""
    client = await connect(await launch(**settings))
    *chunks, _ = events((await post(client, prompt="hi", max_tokens=11, stream=True, **field)).text)
    words = [chunk["choices"][0]["text"].count(" ") for chunk in chunks]

    assert words == [1, 4, 4, 2]


async def test_usage_can_be_told_in_every_chunk(launch, connect):
    client = await connect(await launch())
    options = {"include_usage": True, "continuous_usage_stats": True}
    text = (await post(client, prompt=[1, 2, 3], max_tokens=3, stream=True, stream_options=options)).text
    *chunks, _ = events(text)

    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3, 3]
    assert chunks[0]["usage"] == {"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1}


async def test_a_long_prompt_is_parsed_like_a_short_one(launch, connect):
    """Bodies above 16 kB go through a thread."""
    client = await connect(await launch())
    body = (await post(client, prompt=[5] * 9000, max_tokens=1)).json()

    assert body["usage"]["prompt_tokens"] == 9000


# -------------------------------------------------------------------- cached tokens in usage


async def test_a_repeated_chat_tells_its_cached_tokens(launch, connect):
    client = await connect(await launch())
    body = chat("a prefix that is long enough to fill several blocks of sixteen tokens each, " * 4)
    first = (await post(client, "/v1/chat/completions", **body)).json()["usage"]
    second = (await post(client, "/v1/chat/completions", **body)).json()["usage"]
    tokens = first["prompt_tokens"]
    blocks = (tokens - 1) // 16 * 16

    assert first["prompt_tokens_details"] == {
        "cached_tokens": 0, "created_cache_tokens": tokens // 16 * 16, "multimodal_tokens": None
    }  # fmt: skip
    assert second["prompt_tokens_details"]["cached_tokens"] == blocks


async def test_a_completion_does_not_tell_created_tokens(launch, connect):
    client = await connect(await launch())
    details = (await post(client, prompt=[1] * 40, max_tokens=1)).json()["usage"]["prompt_tokens_details"]

    assert details == {"cached_tokens": 0, "created_cache_tokens": None, "multimodal_tokens": None}


async def test_a_completion_stream_leaves_out_what_it_does_not_tell(launch, connect):
    client = await connect(await launch())
    options = {"include_usage": True}
    text = (await post(client, prompt=[1] * 40, max_tokens=1, stream=True, stream_options=options)).text

    assert events(text)[-2]["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_several_prompts_tell_the_cached_tokens_of_the_last(launch, connect):
    client = await connect(await launch())
    await post(client, prompt=[1] * 33, max_tokens=1)
    usage = (await post(client, prompt=[[2] * 33, [1] * 33], max_tokens=1)).json()["usage"]

    assert usage["prompt_tokens_details"]["cached_tokens"] == 32


@pytest.mark.parametrize("stream", [False, True])
async def test_cached_tokens_can_be_left_out(launch, connect, stream):
    client = await connect(await launch(prompt_tokens_details=False))
    body = {"prompt": [1] * 40, "max_tokens": 1, "stream": stream}
    if stream:
        text = (await post(client, **body, stream_options={"include_usage": True})).text
        assert "prompt_tokens_details" not in events(text)[-2]["usage"]
    else:
        assert (await post(client, **body)).json()["usage"]["prompt_tokens_details"] is None
