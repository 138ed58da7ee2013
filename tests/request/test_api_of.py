"""Which schema a path stands for."""

import pytest

from epp.request import Api, api_of, stored_response_of


@pytest.mark.parametrize(
    "path, api",
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/chat/completions/batch", "chat-batch"),
        ("/v1/chat/completions/render", "chat-render"),
        ("/v1/completions", "completions"),
        ("/v1/completions/render", "completions-render"),
        ("/v1/responses", "responses"),
        ("/v1/responses/render", "responses-render"),
        ("/v1/messages", "messages"),
        ("/v1/messages/render", "messages-render"),
        ("/v1/messages/count_tokens", "messages-render"),
        ("/v1/embeddings", "embeddings"),
        ("/pooling", "pooling"),
        ("/classify", "classify"),
        ("/score", "score"),
        ("/v1/score", "score"),
        ("/rerank", "rerank"),
        ("/v1/rerank", "rerank"),
        ("/v2/rerank", "rerank"),
        ("/tokenize", "tokenize"),
        ("/inference/v1/generate", "generate"),
        ("/cohere/v2/chat", "chat"),
        ("/cohere/v2/chat/render", "chat-render"),
    ],
)
def test_a_path_with_a_prompt_names_its_schema(path, api):
    assert api_of(path) == Api(api)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/v1/models",
        "/v1/chat/completions/",
        "/V1/chat/completions",
        "/v1/chat/completions?api-version=1",
        "/v1/audio/transcriptions",
        "/v1/responses/resp_1",
        "/detokenize",
    ],
)
def test_every_other_path_shows_no_prompt(path):
    assert api_of(path) is Api.OTHER


@pytest.mark.parametrize(
    "name", ["chat-render", "completions-render", "responses-render", "messages-render", "tokenize"]
)
def test_rendering_and_tokenising_leave_nothing_in_a_cache(name):
    assert not Api(name).computes


@pytest.mark.parametrize(
    "name", ["chat", "chat-batch", "completions", "responses", "messages", "embeddings", "rerank"]
)
def test_generating_and_pooling_fill_the_cache(name):
    assert Api(name).computes


@pytest.mark.parametrize(
    "path, stored",
    [
        ("/v1/responses/resp_1", "resp_1"),
        ("/v1/responses/resp_1/cancel", "resp_1"),
        ("/v1/responses/resp_1/input_items", "resp_1"),
        ("/v1/responses/" + "r" * 256, "r" * 256),
        ("/v1/responses/" + "r" * 257, None),  # no endpoint is remembered for it
        ("/v1/responses/", None),
        ("/v1/responses", None),
        ("/v1/responses/render", None),
        ("/v1/chat/completions/resp_1", None),
    ],
)
def test_a_path_below_responses_names_a_stored_response(path, stored):
    assert stored_response_of(path) == stored
