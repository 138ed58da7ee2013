"""Bodies that are read in steps come to the same request as those that are read at once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.errors import BadRequestError
from epp.request import LARGE_BYTES, Api, is_manifold, parse_request, parse_steps
from epp.request.canonical import PromptBytes
from epp.request.long_json import string_pieces
from epp.request.steps import result_of
from tests.request.test_prompt_properties import arguments, conversations, json_values, parts, texts

APIS = [api for api in Api if api is not Api.OTHER]
STEPS = st.integers(16, 60)

# Long enough for several pieces, of characters and escapes of every length.
long_texts = st.text(alphabet='ab"\\/\n\u0000é模😀', max_size=120)
spelled = st.lists(
    st.sampled_from(
        ["a", "b", "é", "模", "😀", "\\\\", '\\"', "\\/", "\\n", "\\u0041", "\\u6A21", "\\ud83d\\uDE00"]
    ),
    max_size=80,
).map("".join)
long_parts = (
    parts
    | long_texts.map(lambda text: {"type": "text", "text": text})
    | long_texts
    | st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, long_texts)
    | st.builds(lambda url: {"type": "image_url", "image_url": url, "uuid": "u"}, json_values | long_texts)
    | st.builds(lambda text: {"image_url": {"detail": text}}, long_texts)
    | st.builds(lambda data: {"input_audio": {"data": data, "format": "wav"}}, long_texts)
    | st.builds(lambda text, content: {"type": "tool_result", "a": text, "content": content}, long_texts, st.lists(parts | long_texts, max_size=3))
    | st.builds(lambda text, kind: {"type": kind, "text": text}, long_texts, st.sampled_from(["thinking", 5, None]))
    | st.lists(texts, max_size=20)
)  # fmt: skip
long_messages = st.fixed_dictionaries(
    {"content": st.none() | long_texts | st.lists(long_parts, max_size=4)},
    optional={
        "role": texts | st.none(), "name": long_texts, "reasoning": long_texts, "type": texts,
        "tool_calls": st.lists(json_values, max_size=8),
    },
)  # fmt: skip
ids = st.lists(st.integers(0, 2**32 - 1), max_size=30)
prompts = (
    st.none()
    | long_texts
    | ids
    | st.lists(long_texts | ids, max_size=4)
    | st.lists(ids | st.integers(1, 60) | st.just(-1))
)
strings = st.none() | long_texts | st.lists(long_texts, max_size=4) | st.lists(st.integers(0, 9), max_size=2)


def at_once(api, body):
    assert len(body) <= 1 << 20
    try:
        return parse_request(api, body)
    except BadRequestError as error:
        return error.message


def in_steps(api, body, step_bytes):
    try:
        return result_of(parse_steps(api, body, step_bytes))
    except BadRequestError as error:
        return error.message


def same(api, value, step_bytes, **dumps):
    body = json.dumps(value, **dumps).encode()
    assert in_steps(api, body, step_bytes) == at_once(api, body)
    assert in_steps(api, bytearray(b"\xef\xbb\xbf" + body), step_bytes).prompts == at_once(api, body).prompts


@given(conversations | st.lists(long_messages, max_size=4), arguments, STEPS, st.booleans())
def test_a_chat(messages, arguments, step_bytes, ascii_only):
    same(Api.CHAT, {"messages": messages, **arguments}, step_bytes, ensure_ascii=ascii_only)


@given(st.lists(st.lists(long_messages, max_size=3), max_size=3), STEPS)
def test_several_chats(batch, step_bytes):
    same(Api.CHAT_BATCH, {"messages": batch}, step_bytes)


@given(
    st.none() | long_texts | st.lists(long_parts, max_size=3) | st.just(["x-anthropic-billing-header: a"]),
    st.lists(long_messages, max_size=3), STEPS,
)  # fmt: skip
def test_messages_with_a_system_text(system, messages, step_bytes):
    blocks = [{"type": "text", "text": "x-anthropic-billing-header: " + "b" * 30}]
    same(Api.MESSAGES, {"system": system, "messages": messages}, step_bytes)
    same(Api.MESSAGES, {"system": blocks, "messages": messages}, step_bytes)


@given(
    st.none() | long_texts | st.lists(long_messages | long_parts, max_size=4),
    st.none() | long_texts, st.sampled_from([None, "resp_1"]), STEPS,
)  # fmt: skip
def test_responses(said, instructions, previous, step_bytes):
    body = {
        "input": said,
        "instructions": instructions,
        "previous_response_id": previous,
        "max_output_tokens": 9,
    }
    same(Api.RESPONSES, body, step_bytes)


@given(prompts, st.sampled_from([None, False]), STEPS)
def test_texts_and_token_ids(prompt, special, step_bytes):
    extra = {} if special is None else {"add_special_tokens": special}
    same(Api.COMPLETIONS, {"model": "m", "prompt": prompt, **extra}, step_bytes)
    same(Api.EMBEDDINGS, {"input": prompt, **extra}, step_bytes)
    same(Api.TOKENIZE, {"prompt": prompt, "messages": [{"role": "u", "content": "x" * 40}]}, step_bytes)
    same(Api.EMBEDDINGS, {"messages": [{"role": "u", "content": "x" * 40}], **extra}, step_bytes)
    same(Api.GENERATE, {"token_ids": prompt}, step_bytes)


@given(
    strings,
    strings,
    st.sampled_from([("query", "documents"), ("text_1", "text_2"), ("queries", "data_2")]),
    STEPS,
)
def test_pairs(left, right, names, step_bytes):
    same(Api.SCORE, dict(zip(names, (left, right), strict=True)), step_bytes)


@pytest.mark.parametrize("part", [
    {"image_url": {"detail": "x" * 99}}, {"image_url": ["x" * 99]}, {"image_url": {"url": ["x" * 99]}},
    {"image_url": "x" * 99, "source": {}}, {"type": "thinking", "text": "x" * 99}, {"text": 5, "type": "x" * 99},
    ["x" * 99], "x" * 99, {"content": ["x" * 99, {"a": "x" * 99, "content": ["x" * 99]}], "cache_control": "x" * 99},
])  # fmt: skip
def test_parts_of_every_kind(part):
    same(Api.CHAT, {"messages": [{"role": "u", "content": [part]}]}, 16)
    same(
        Api.RESPONSES, {"input": [part, {"role": "u", "content": 5}, {"role": "u", "content": "x" * 99}]}, 16
    )


@pytest.mark.parametrize("value", [
    {"query": "", "documents": ""}, {"query": "q", "text_2": ["", "x" * 99]}, {"text_1": [], "data_1": "q", "data_2": "d"},
    {"query": 5, "documents": "x" * 99}, {"query": ["x" * 99, 5], "documents": "d"}, {"query": {}, "documents": "d"},
])  # fmt: skip
def test_pairs_of_odd_shapes(value):
    same(Api.RERANK, value, 16)


@given(spelled, STEPS)
def test_a_string_cut_anywhere_is_the_same_text(text, step_bytes):
    raw = f'"{text}"'.encode()
    pieces = list(string_pieces(memoryview(raw), step_bytes))

    assert b"".join(pieces).decode() == json.loads(raw)
    assert all(pieces)


@pytest.mark.parametrize("run", range(14, 40))
@pytest.mark.parametrize("step_bytes", range(16, 24))
def test_backslashes_and_pairs_of_surrogates_are_cut_between(run, step_bytes):
    for text in (
        "\\\\" * run,
        "a" + "\\\\" * run + "\\n",
        "\\\\ud83d" * run,
        "\\ud83d\\ude00" * run,
        "a" * run + "\\\\\\ud83d\\ude00",
    ):
        raw = f'"{text}"'.encode()

        assert b"".join(string_pieces(memoryview(raw), step_bytes)).decode() == json.loads(raw)


@given(st.binary(max_size=60), st.sampled_from(APIS), STEPS)
def test_no_bytes_raise_anything_but_a_bad_request(body, api, step_bytes):
    filled = b'{"messages":[{"content":"%b"},' + b'{"content":["%b"' % (b"x" * 99)
    for candidate in (body, filled + body, b'{"prompt":"' + body + b'"}', b'{"input":["' + b"x" * 99 + body):
        in_steps(api, candidate, step_bytes)


@pytest.mark.parametrize("text", [b"\xc3", b"a" * 200 + b"\xed\xa0\x80", b"\xe6\xa8" * 90, b"\x80" * 50])
def test_a_long_text_that_is_not_utf8_is_a_bad_request(text):
    for body in (b'{"prompt":"%b"}' % text, b'{"prompt":"%b\\n"}' % text):
        with pytest.raises(BadRequestError, match="UTF-8"):
            result_of(parse_steps(Api.COMPLETIONS, body, 16))


@pytest.mark.parametrize("place", [0, 15, 16, 100])
def test_a_byte_that_ends_fields_is_refused_wherever_it_stands(place):
    body = bytearray(b'{"prompt":"%b"}' % (b"x" * 200))
    body[place] = 0xFC

    with pytest.raises(BadRequestError, match=rf"\(byte {place}\)"):
        result_of(parse_steps(Api.COMPLETIONS, body, 16))


def test_of_a_body_of_more_than_a_million_elements_no_prompt_is_shown():
    body = b'{"model":"m","prompt":[%b1]}' % (b"1," * 1_000_001)

    assert parse_request(Api.COMPLETIONS, body).prompts == ()
    assert parse_request(Api.COMPLETIONS, body).model == "m"


def test_messages_past_what_a_prompt_holds_are_left_out():
    messages = [{"role": "u", "content": "x" * 60}] * 17_000
    body = json.dumps({"messages": messages}).encode()
    [prompt] = parse_request(Api.CHAT, body).prompts

    assert prompt.data == b"u\xfe" * 0 + (b"u\xfe" + b"x" * 60 + b"\xff") * 16_384


@pytest.mark.parametrize("api", APIS)
def test_long_bodies_have_many_turns_between_them(api):
    text = "abc " * 1_000
    body = {"messages": [{"role": "u", "content": text}] * 8, "prompt": [text] * 8, "input": text,
            "query": "q", "documents": [text] * 8, "token_ids": [1] * 8000}  # fmt: skip

    assert len(list(parse_steps(api, json.dumps(body).encode(), 1024))) > 40


def turns(api, body, step_bytes=LARGE_BYTES):
    return len(list(parse_steps(api, body, step_bytes)))


MANIFOLD = {
    "messages": (Api.CHAT, {"messages": [{"role": "u", "content": "hello there"}] * 4000}),
    "parts": (Api.CHAT, {"messages": [{"role": "u", "content": [{"type": "text", "text": "a"}] * 5000}]}),
    "token ids": (Api.COMPLETIONS, {"prompt": [150_000] * 40_000}),
    "lists of token ids": (Api.COMPLETIONS, {"prompt": [[150_000] * 30] * 1000}),
    "ids of a rendered prompt": (Api.GENERATE, {"token_ids": [150_000] * 40_000}),
    "items": (Api.RESPONSES, {"input": [{"role": "u", "content": "hello there"}] * 4000}),
}


@pytest.mark.parametrize("name", MANIFOLD)
def test_a_body_of_many_elements_has_turns_between_them_though_it_is_not_large(name):
    api, value = MANIFOLD[name]
    body = json.dumps(value).encode()

    assert len(body) < LARGE_BYTES
    assert is_manifold(body)
    assert in_steps(api, body, LARGE_BYTES) == at_once(api, body)
    assert turns(api, body) > 2


@pytest.mark.parametrize(
    "text", ["a, b. " * 10_000, "x" * 200_000, '{"a": 1}, ' * 900], ids=["text", "word", "few objects"]
)
def test_a_body_of_few_elements_is_read_at_once(text):
    body = json.dumps({"model": "m", "prompt": text + "y" * 131_072}).encode()

    assert not is_manifold(body)
    assert turns(Api.COMPLETIONS, body) == 0


def test_a_short_body_is_read_at_once_however_many_elements_it_has():
    assert not is_manifold(b'{"prompt":[%b1]}' % (b"1," * 60_000))


def test_pairs_have_turns_by_what_they_cost():
    body = json.dumps({"query": "q", "documents": ["d" * 500] * 10}).encode()

    assert turns(Api.SCORE, body, 4096) < turns(Api.SCORE, body, 1024)


def test_a_body_of_many_elements_with_a_lone_surrogate_is_repaired():
    messages = [{"role": "u", "content": "hello there"}] * 4000 + [{"role": "u", "content": "\ud800"}]
    body = json.dumps({"messages": messages}).encode()

    assert not is_manifold(body)
    assert turns(Api.CHAT, body) == 0


@pytest.mark.parametrize(
    "ids",
    ['[1, "a,b,c,d,e,f,g,h", 2]', "[1, [2, 3, 4, 5, 6, 7], 8]", "[1, 2.5, 3, 4, 5, 6, 7, 8]", "[1, -2, 3, 4, 5, 6]"],
)  # fmt: skip
@pytest.mark.parametrize("step_bytes", [16, 17, 20])
def test_what_is_no_list_of_ids_shows_nothing_wherever_it_is_cut(ids, step_bytes):
    body = b'{"prompt": %b, "x": ""}' % ids.encode()

    assert in_steps(Api.COMPLETIONS, body, step_bytes).prompts == ()


def test_ids_far_apart_are_read():
    body = b'{"token_ids": [1,%b2,3%b]}' % (b" " * 100, b"\n" * 70)

    assert in_steps(Api.GENERATE, body, 16) == at_once(Api.GENERATE, body)
    assert len(in_steps(Api.GENERATE, body, 16).prompts[0].data) == 12


@pytest.mark.parametrize("ids", ["null", "[]", '"abc"', "7", "{}"])
def test_token_ids_that_are_none_show_nothing_in_steps(ids):
    body = b'{"token_ids": %b, "padding": "%b"}' % (ids.encode(), b"x" * 100)

    assert in_steps(Api.GENERATE, body, 16) == at_once(Api.GENERATE, body)


def test_fields_without_number_have_turns_when_they_are_joined():
    out = PromptBytes(1 << 20)
    for _ in range(10_000):
        out.text("a")

    assert len(list(out.finish_steps())) == 2


def test_parts_inside_a_part_have_turns_between_them_too():
    inner = [{"type": "text", "text": "a"}] * 3000
    around = {
        "role": "u",
        "content": [{"type": "tool_result", "content": inner}, {"type": "text", "text": "b"}],
    }
    body = json.dumps({"messages": [around, {"role": "u", "content": "c"}]}).encode()

    assert in_steps(Api.MESSAGES, body, 65_536) == at_once(Api.MESSAGES, body)
    assert turns(Api.MESSAGES, body, 65_536) > 5


def test_a_long_part_past_what_a_prompt_holds_is_left_out():
    many = ["a"] * 33_000
    last = [{"type": "text", "text": "b" * 40_000}]
    body = json.dumps({"messages": [{"role": "u", "content": many + last}]}).encode()

    assert in_steps(Api.CHAT, body, LARGE_BYTES) == at_once(Api.CHAT, body)
