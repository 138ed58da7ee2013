"""Which bytes stand for texts and token ids."""

import json

import pytest

from epp.request import Api, Prompt, parse_request


def prompts(body, api=Api.COMPLETIONS):
    return parse_request(api, json.dumps(body).encode()).prompts


def ids(data):
    return Prompt(data, token_ids=True)


def test_a_text_is_its_utf8_bytes():
    assert prompts({"prompt": "Xin chào"}) == (Prompt(b"Xin ch\xc3\xa0o"),)


def test_each_text_of_a_list_is_a_prompt():
    assert prompts({"prompt": ["aaaabbbb", "ccccdddd"]}) == (Prompt(b"aaaabbbb"), Prompt(b"ccccdddd"))
    assert prompts({"prompt": ["ccccdddd"]}) == (Prompt(b"ccccdddd"),)


def test_token_ids_are_little_endian_uint32():
    assert prompts({"prompt": [1, 256, 4294967295]}) == (ids(b"\x01\0\0\0\0\x01\0\0\xff\xff\xff\xff"),)


def test_each_list_of_token_ids_is_a_prompt():
    assert prompts({"prompt": [[1, 2], [3]]}) == (ids(b"\x01\0\0\0\x02\0\0\0"), ids(b"\x03\0\0\0"))


@pytest.mark.parametrize(
    "prompt",
    [
        [True],
        [[True]],
        [-1],
        [4294967296],
        [1.0],
        [[1.0]],
        [None],
        [{}],
        [1, "a"],
        [[1], 2],
        [[[1]]],
        {},
        5,
        True,
    ],
)
def test_anything_else_shows_no_prompt(prompt):
    assert prompts({"prompt": prompt}) == ()


@pytest.mark.parametrize("prompt", [None, "", [], [""], [[]]])
def test_an_empty_prompt_shows_nothing(prompt):
    assert prompts({"prompt": prompt}) == ()


def test_empty_elements_show_nothing():
    assert prompts({"prompt": ["a", "", "b"]}) == (Prompt(b"a"), Prompt(b"b"))


def test_special_tokens_stand_before_text_but_not_before_ids():
    assert prompts({"prompt": ["a", "b"], "add_special_tokens": False}) == (
        Prompt(b"add_special_tokens\xfdfalse\xfca"),
        Prompt(b"add_special_tokens\xfdfalse\xfcb"),
    )
    assert prompts({"prompt": [1], "add_special_tokens": False}) == (ids(b"\x01\0\0\0"),)


def test_at_most_2048_prompts_are_shown():
    assert len(prompts({"prompt": ["a"] * 2049})) == 2048


@pytest.mark.parametrize("api", [Api.EMBEDDINGS, Api.POOLING, Api.CLASSIFY])
def test_pooling_takes_texts_ids_or_a_conversation(api):
    assert prompts({"input": "a"}, api) == (Prompt(b"a"),)
    assert prompts({"input": ["a", "b"]}, api) == (Prompt(b"a"), Prompt(b"b"))
    assert prompts({"input": [1]}, api) == (ids(b"\x01\0\0\0"),)
    assert prompts({"messages": [{"role": "user", "content": "a"}]}, api) == (Prompt(b"user\xfea\xff"),)


def test_an_embedding_of_parts_is_left_to_the_endpoint():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "http://x/i.png"}}]
    assert prompts({"model": "m", "input": parts}, Api.EMBEDDINGS) == ()


def test_tokenize_takes_a_text_or_a_conversation():
    assert prompts({"prompt": "a"}, Api.TOKENIZE) == (Prompt(b"a"),)
    assert prompts({"messages": [{"role": "user", "content": "a"}]}, Api.TOKENIZE) == (
        Prompt(b"user\xfea\xff"),
    )


@pytest.mark.parametrize(
    "body",
    [
        {"query": "q", "documents": ["a", "b"]},
        {"queries": "q", "documents": ["a", "b"]},
        {"queries": ["q"], "documents": ["a", "b"]},
        {"text_1": "q", "text_2": ["a", "b"]},
        {"data_1": "q", "data_2": ["a", "b"]},
        {"text_1": ["q", "q"], "text_2": ["a", "b"]},
    ],
)
@pytest.mark.parametrize("api", [Api.SCORE, Api.RERANK])
def test_each_pair_is_a_prompt_that_begins_with_the_query(api, body):
    assert prompts(body, api) == (Prompt(b"q\xffa\xff"), Prompt(b"q\xffb\xff"))


@pytest.mark.parametrize("body", [
    {"query": "q"},
    {"documents": ["a"]},
    {"query": "q", "documents": []},
    {"text_1": ["q", "r"], "text_2": ["a"]},
    {"query": "q", "documents": [{"text": "a"}]},
    {"query": {"content": []}, "documents": ["a"]},
])  # fmt: skip
def test_what_makes_no_pairs_shows_no_prompt(body):
    assert prompts(body, Api.RERANK) == ()


def test_at_most_2048_pairs_are_shown():
    assert len(prompts({"query": "q", "documents": ["a"] * 2049}, Api.RERANK)) == 2048


def test_the_token_ids_of_a_generate_request_are_those_of_a_completion():
    assert prompts({"token_ids": [1, 256]}, Api.GENERATE) == (ids(b"\x01\0\0\0\0\x01\0\0"),)
    assert prompts({"token_ids": [1, 256]}, Api.GENERATE) == prompts({"prompt": [1, 256]})


@pytest.mark.parametrize(
    "body", [{}, {"token_ids": []}, {"token_ids": ["a"]}, {"token_ids": [1], "features": {"mm_hashes": {}}}]
)
def test_a_generate_request_with_images_or_without_ids_shows_no_prompt(body):
    assert prompts(body, Api.GENERATE) == ()
