"""Requests that vLLM refuses, in its words."""

import json

import pytest

from tests.simserver.kit import chat, metric


async def refused(client, path, body, content_type="application/json"):
    """Status and error of a refusal."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await client.post(path, content=content, headers={"content-type": content_type})
    error = response.json()["error"]
    assert error["code"] == response.status_code
    return response.status_code, error["type"], error["param"], error["message"]


@pytest.mark.parametrize(
    ("path", "body", "param", "message"),
    [
        (
            "/v1/completions",
            {"prompt": [1] * 20, "max_tokens": 101},
            "max_tokens",
            (
                "max_tokens=101 cannot be greater than max_model_len=100. Please request fewer output tokens. "
                "(parameter=max_tokens, value=101)"
            ),
        ),
        (
            "/v1/completions",
            {"prompt": [1] * 20, "max_tokens": 90},
            "input_tokens",
            (
                "This model's maximum context length is 100 tokens. However, you requested 90 output tokens and your "
                "prompt contains 20 input tokens, for a total of 110 tokens. Please reduce the length of the input "
                "prompt or the number of requested output tokens. (parameter=input_tokens, value=20)"
            ),
        ),
        (
            "/v1/chat/completions",
            chat("one two three " * 100),
            "input_tokens",
            (
                "This model's maximum context length is 100 tokens. However, your prompt contains at least 101 input "
                "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "
                "input prompt. (parameter=input_tokens, value=101)"
            ),
        ),
        (
            "/v1/completions",
            {"prompt": "a", "max_tokens": 0},
            "max_tokens",
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
        ),
        ("/v1/chat/completions", chat(n=0), "n", "n must be at least 1, got 0. (parameter=n, value=0)"),
    ],
)
async def test_a_value_out_of_range_is_a_bad_request(launch, connect, path, body, param, message):
    client = await connect(await launch(max_model_len=100))

    assert await refused(client, path, body) == (400, "BadRequestError", param, message)


@pytest.mark.parametrize(
    ("path", "body", "param", "error_type"),
    [
        ("/v1/chat/completions", b"[1]", "body", "model_attributes_type"),
        ("/v1/chat/completions", b'{"a": \xff}', "body.0", "json_invalid"),
        ("/v1/chat/completions", b"[" * 100_000, "body.0", "json_invalid"),
        ("/v1/chat/completions", {"messages": "hi"}, "body.messages", "list_type"),
        ("/v1/chat/completions", {"messages": ["hi"]}, "body.messages", "dict_type"),
        ("/v1/chat/completions", chat(model=7), "body.model", "string_type"),
        ("/v1/chat/completions", chat(stream="yes"), "body.stream", "bool_type"),
        ("/v1/chat/completions", chat(temperature="hot"), "body.temperature", "float_type"),
        ("/v1/chat/completions", chat(max_tokens=True), "body.max_tokens", "int_type"),
        ("/v1/chat/completions", chat(max_tokens=1.5), "body.max_tokens", "int_type"),
        ("/v1/chat/completions", chat(stream=True, stream_options=[]), "body.stream_options", "dict_type"),
        (
            "/v1/chat/completions",
            chat(stream_options={"include_usage": True}),
            "body.stream_options",
            "value_error",
        ),
        ("/v1/completions", {}, "body.prompt", "value_error"),
        ("/v1/completions", {"prompt": ""}, "body.prompt", "value_error"),
        ("/v1/completions", {"prompt": []}, "body.prompt", "value_error"),
        ("/v1/completions", {"prompt": [[]]}, "body.prompt", "value_error"),
        ("/v1/completions", {"prompt": ["a", 1]}, "body.prompt", "value_error"),
        ("/v1/completions", {"prompt": [-1]}, "body.prompt", "value_error"),
        ("/v1/completions", {"prompt": [True]}, "body.prompt", "value_error"),
        ("/tokenize", {"prompt": 7}, "body.prompt", "string_type"),
        ("/tokenize", {}, "body.messages", "missing"),
        ("/detokenize", {"tokens": ["a"]}, "body.tokens", "list_type"),
        ("/detokenize", {}, "body.tokens", "list_type"),
    ],
)
async def test_a_body_that_does_not_fit_the_schema_names_the_field(
    launch, connect, path, body, param, error_type
):
    client = await connect(await launch())
    status, kind, told, message = await refused(client, path, body)

    assert (status, kind, told) == (400, "Bad Request", param)
    assert message.startswith("1 validation error:\n  {'type': '" + error_type)


async def test_a_lone_surrogate_is_served(launch, connect):
    """JSON escapes can hold what UTF-8 cannot."""
    client = await connect(await launch())
    body = b'{"messages": [{"role": "user", "content": "a \\ud800 b"}], "max_tokens": 1}'
    response = await client.post(
        "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
    )

    assert response.status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", ""])
async def test_only_json_is_allowed(launch, connect, content_type):
    client = await connect(await launch())

    assert await refused(client, "/v1/completions", {"prompt": "a"}, content_type) == (
        400,
        "Bad Request",
        None,
        "Unsupported Media Type: Only 'application/json' is allowed",
    )


@pytest.mark.parametrize("temperature", [0, 0.7, None])
async def test_a_temperature_from_zero_on_is_served(launch, connect, temperature):
    client = await connect(await launch())

    assert (await client.post("/v1/chat/completions", json=chat(temperature=temperature))).status_code == 200


@pytest.mark.parametrize("model", [None, ""])
async def test_without_a_model_the_served_one_answers(launch, connect, model):
    client = await connect(await launch())
    response = await client.post("/v1/chat/completions", json=chat(model=model))

    assert response.json()["model"] == "sim/llama-8b"


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/completions"), ("POST", "/v1/models")])
async def test_a_wrong_method_is_told_fastapis_way(launch, connect, method, path):
    client = await connect(await launch())
    response = await client.request(method, path)

    assert response.status_code == 405
    assert response.text == '{"detail":"Method Not Allowed"}'


async def test_above_the_queue_limit_vllm_answers_503_without_retry_after(launch, connect):
    client = await connect(await launch(max_num_queued_reqs=2))
    response = await client.post("/v1/completions", json={"prompt": "a", "n": 3})

    assert response.status_code == 503
    assert response.json()["error"]["type"] == "Service Unavailable"
    assert "retry-after" not in response.headers
    assert await metric(client, "vllm:admission_rejections_total", reason="max_num_queued_reqs") == 1
    assert (await client.post("/v1/completions", json={"prompt": "a", "n": 2})).status_code == 200
