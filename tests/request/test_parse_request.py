"""What is read of a body besides its prompts, and what is refused."""

import json

import pytest

from epp.errors import BadRequestError
from epp.request import LARGE_BYTES, Api, InferenceRequest, Prompt, parse_request, parse_steps

PROMPT_APIS = [api for api in Api if api is not Api.OTHER]


def chat(body):
    return parse_request(Api.CHAT, body if isinstance(body, bytes) else json.dumps(body).encode())


def refusal(body, api=Api.CHAT):
    with pytest.raises(BadRequestError) as caught:
        parse_request(api, body)
    return caught.value


def test_a_chat_body_is_read_in_full():
    body = (
        b'{ "model" : "m", "stream": true, "cache_salt": "s", "max_tokens": 7, "store": true, '
        b'"messages":[{"role":"user","content":"hi"}], "seed": 9007199254740993, "extra": [null, {"a": 1e-7}] }'
    )
    assert parse_request(Api.CHAT, body) == InferenceRequest(
        api=Api.CHAT,
        model="m",
        salt="s",
        prompts=(Prompt(b"user\xfehi\xff"),),
        stream=True,
        body_bytes=185,
        max_output_tokens=7,
        replay_safe=False,
    )


def test_a_path_without_a_prompt_is_not_parsed():
    request = parse_request(Api.OTHER, b"\xff\x00 not json")
    assert request == InferenceRequest(Api.OTHER, None, "", (), stream=False, body_bytes=11)


@pytest.mark.parametrize("body", [{}, {"model": None}, {"model": ""}])
def test_an_absent_null_or_empty_model_is_none(body):
    assert chat(body).model is None


def test_the_model_is_as_the_client_named_it():
    assert chat({"model": "Org/Model:adapter é"}).model == "Org/Model:adapter é"


@pytest.mark.parametrize("api", PROMPT_APIS)
@pytest.mark.parametrize("model", [b"7", b"true", b"[]", b'{"a":1}', b"1.5"])
def test_a_model_of_another_type_is_refused_and_named(api, model):
    error = refusal(b'{"model":' + model + b"}", api)
    assert error.param == "model"
    assert error.message.startswith("model must be a string")


def test_a_wrong_model_is_named_even_where_the_prompt_is_wrong_too():
    assert refusal(b'{"messages":5,"model":7}').param == "model"


@pytest.mark.parametrize("api", PROMPT_APIS)
@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "not valid JSON: Input data was truncated (byte 0)"),
        (b'{"model":', "not valid JSON: Input data was truncated (byte 9)"),
        (b'{"model":"m" x', "not valid JSON: JSON is malformed: expected ',' or '}' (byte 13)"),
        (b'{"a":1,}', "(byte 7)"),
        (b'{"a":NaN}', "(byte 5)"),
        (b'{"a":"line\nbreak"}', "(byte 10)"),
        (b'{"a":1} 2', "trailing characters (byte 9)"),
        (b"[1]", "must be a JSON object: Expected `object`, got `array`"),
        (b"null", "must be a JSON object: Expected `object`, got `null`"),
        (b'"x"', "must be a JSON object: Expected `object`, got `str`"),
        (b"7", "must be a JSON object: Expected `object`, got `int`"),
        (b'{"a":"\xff"}', "not valid UTF-8 (byte 6)"),
        (b'{"\xc0":"a"}', "not valid UTF-8 (byte 2)"),
        (b'{"model":"caf\xe9"}', "not valid UTF-8 (byte 13)"),
        (b"\xff\xfe{\x00}\x00", "not valid UTF-8 (byte 1)"),
        (b"[" * 100_000, "must be a JSON object"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_bad_request_that_says_where(api, body, message):
    error = refusal(body, api)
    assert message in error.message
    assert error.param is None


def test_broken_utf8_in_a_message_is_refused_with_its_place():
    assert refusal(b'{"messages":[{"role":"user","content":"caf\xe9 x"}]}').message == (
        "The body is not valid UTF-8 (byte 42)"
    )


def test_an_error_never_quotes_the_body():
    for body in (
        b'{"model":"secret',
        b'{"messages":[{"content":"secret\\q"}]}',
        b'["secret"]',
        b'{"model":["secret"]}',
    ):
        assert "secret" not in refusal(body).message


def test_a_number_of_5000_digits_in_an_ignored_field_passes():
    assert chat(b'{"model":"m","seed":' + b"9" * 5000 + b"}").model == "m"


@pytest.mark.parametrize(
    "name", ["stream", "max_tokens", "store", "cache_salt", "tools", "truncate_prompt_tokens"]
)
def test_a_number_of_5000_digits_in_a_field_of_any_type_never_raises(name):
    assert chat(b'{"model":"m","' + name.encode() + b'":' + b"9" * 5000 + b"}").model == "m"


def test_a_byte_order_mark_before_the_body_is_passed_over():
    assert chat(b'\xef\xbb\xbf{"model":"m"}').model == "m"
    assert chat(b'\xef\xbb\xbf{"model":"m"}').body_bytes == 16


def test_of_two_equal_keys_the_last_counts():
    request = chat(
        b'{"model":"a","messages":[{"role":"user","content":"1","content":"2"}],"model":"b","stream":true,"stream":false}'
    )
    assert request.model == "b"
    assert request.stream is False
    assert request.prompts == (Prompt(b"user\xfe2\xff"),)


def test_an_escaped_key_is_the_key_it_spells():
    assert chat(b'{"\\u006dodel":"m"}').model == "m"


@pytest.mark.parametrize(
    "value, stream", [(b"true", True), (b"false", False), (b"null", False), (b'"true"', False), (b"1", False)]
)
@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
def test_only_true_asks_for_a_stream_and_nothing_else_is_refused(api, value, stream):
    assert parse_request(api, b'{"stream":' + value + b"}").stream is stream


@pytest.mark.parametrize("body, tokens", [
    ({}, None),
    ({"max_tokens": 5}, 5),
    ({"max_completion_tokens": 6}, 6),
    ({"max_output_tokens": 8}, 8),
    ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
    ({"max_tokens": 5, "max_completion_tokens": None}, 5),
    ({"max_tokens": 5, "max_completion_tokens": 0}, 5),
    ({"max_tokens": 0}, None),
    ({"max_tokens": -1}, None),
    ({"max_tokens": None}, None),
    ({"max_tokens": "5"}, None),
    ({"max_tokens": 5.5}, None),
    ({"max_tokens": True}, None),
    ({"max_tokens": 10**17}, 10**17),
    ({"max_tokens": 10**18}, None),
])  # fmt: skip
def test_the_output_limit_is_the_first_positive_int_of_its_names(body, tokens):
    assert chat(body).max_output_tokens == tokens


@pytest.mark.parametrize("body, salt", [
    ({}, ""),
    ({"cache_salt": None}, ""),
    ({"cache_salt": ""}, ""),
    ({"cache_salt": "tenant é"}, "tenant é"),
    ({"cache_salt": 'a"b\n'}, 'a"b\n'),
    ({"cache_salt": 7}, "7"),
    ({"cache_salt": ["a", "b"]}, '["a", "b"]'),
])  # fmt: skip
def test_the_salt_is_the_text_of_a_string_and_the_json_of_anything_else(body, salt):
    assert chat(body).salt == salt


def test_a_salt_can_always_be_encoded():
    assert chat(b'{"cache_salt":["caf\xe9"]}').salt == '["caf\\xe9"]'
    assert chat(b'{"cache_salt":"caf\xe9"}').salt == "caf\\xe9"


@pytest.mark.parametrize("body, safe", [
    ({}, True),
    ({"store": False, "background": None}, True),
    ({"store": "true"}, True),
    ({"store": True}, False),
    ({"background": True}, False),
])  # fmt: skip
def test_a_request_that_is_stored_or_runs_in_the_background_is_not_sent_twice(body, safe):
    assert chat(body).replay_safe is safe


def test_a_truncated_prompt_shows_nothing():
    messages = [{"role": "user", "content": "hi"}]
    assert chat({"model": "m", "messages": messages, "truncate_prompt_tokens": 10}).prompts == ()
    assert chat({"model": "m", "messages": messages, "truncate_prompt_tokens": -1}).prompts == ()
    assert chat({"messages": messages, "truncate_prompt_tokens": None}).prompts == (
        Prompt(b"user\xfehi\xff"),
    )


@pytest.mark.parametrize("api", PROMPT_APIS)
@pytest.mark.parametrize(
    "name", ["messages", "prompt", "input", "query", "documents", "system", "instructions", "tools"]
)
@pytest.mark.parametrize(
    "value",
    [None, 5, True, "x", [], [5], [True], [None], {}, {"a": 1}, [[]], [{}], [{"role": 1}], [{"content": {}}]],
)
def test_an_unexpected_shape_is_left_to_the_endpoint(api, name, value):
    request = parse_request(api, json.dumps({"model": "m", "stream": True, name: value}).encode())
    assert request.model == "m"
    assert request.stream is True


@pytest.mark.parametrize(
    "text", ["\\ud800abc", "\\ud800", "\\udc00", "\\ud83d\\ud83d\\ude00", "\\uD800\\u0041"]
)
@pytest.mark.parametrize("api", PROMPT_APIS)
def test_a_lone_surrogate_never_raises(api, text):
    for name in ("prompt", "input", "ignored"):
        body = f'{{"model":"m","{name}":"{text}","messages":[{{"role":"user","content":"{text}"}}]}}'.encode()
        assert parse_request(api, body).model == "m"


def test_a_lone_surrogate_is_hashed_as_a_question_mark():
    assert chat(b'{"messages":[{"role":"user","content":"\\ud800abc \\ud83d\\ude00"}]}').prompts == (
        Prompt(b"user\xfe?abc \xf0\x9f\x98\x80\xff"),
    )


def test_a_lone_surrogate_in_a_long_body_is_refused():
    body = b'{"prompt":"\\ud800' + b"x" * 1_000_000 + b'"}'
    assert "not valid JSON" in refusal(body, Api.COMPLETIONS).message


def test_broken_json_beside_a_surrogate_is_still_broken():
    assert "not valid JSON" in refusal(b'{"a":"\\ud800x",}').message
    assert "not valid JSON" in refusal(b'{"a":"\\ud800x","b":' + b"9" * 5000 + b"}").message
    assert "not valid UTF-8" in refusal(b'{"a":"\\ud800x\xe9"}').message
    assert "nested too deeply" in refusal(b'{"a":"\\ud800x","b":' + b"[" * 100_000).message


def test_a_body_of_more_than_a_million_elements_shows_no_prompt():
    body = b'{"model":"m","prompt":[' + b"1," * 1_000_000 + b"1]}"
    assert parse_request(Api.COMPLETIONS, body).prompts == ()
    assert parse_request(Api.COMPLETIONS, body).model == "m"


def test_a_million_token_ids_are_a_prompt():
    body = b'{"prompt":[' + b"12," * 999_999 + b"12]}"
    assert len(parse_request(Api.COMPLETIONS, body).prompts[0].data) == 4_000_000


@pytest.mark.parametrize(
    "body, stored",
    [
        (b'{"input":"hi","previous_response_id":"resp_1"}', "resp_1"),
        (b'{"input":{"odd":"shape"},"previous_response_id":"resp_\\u0031"}', "resp_1"),
        (b'{"input":"hi","previous_response_id":null}', None),
        (b'{"input":"hi","previous_response_id":""}', None),
        (b'{"input":"hi"}', None),
    ],
)
def test_the_response_that_a_request_continues_is_read(body, stored):
    assert parse_request(Api.RESPONSES, body).stored_response == stored


def test_a_model_of_1024_characters_is_a_name_and_a_longer_one_is_refused():
    assert parse_request(Api.CHAT, b'{"model":"%b"}' % (b"m" * 1024)).model == "m" * 1024

    with pytest.raises(BadRequestError, match="model is longer than 1024 characters") as caught:
        parse_request(Api.CHAT, b'{"model":"%b"}' % (b"m" * 1025))
    assert caught.value.param == "model"


def test_an_id_that_no_response_can_have_is_none():
    assert (
        parse_request(Api.RESPONSES, b'{"previous_response_id":"%b"}' % (b"r" * 256)).stored_response
        == "r" * 256
    )
    assert (
        parse_request(Api.RESPONSES, b'{"previous_response_id":"%b"}' % (b"r" * 257)).stored_response is None
    )


def in_steps(api, body):
    """The request, and how often others had their turn."""
    steps, turns = parse_steps(api, body), 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, turns
        turns += 1


@pytest.mark.parametrize(
    ("size", "turns"), [(100, 0), (LARGE_BYTES, 0), (LARGE_BYTES + 1, 4)], ids=["small", "limit", "large"]
)
def test_a_large_body_is_parsed_in_steps_to_the_same_request(size, turns):
    frame = b'{"model":"m","prompt":"%b"}'
    body = frame % (b"a" * (size - len(frame % b"")))

    assert in_steps(Api.COMPLETIONS, body) == (parse_request(Api.COMPLETIONS, body), turns)


def test_in_steps_a_truncated_prompt_shows_nothing_and_an_unknown_api_is_not_read():
    body = b'{"model":"m","truncate_prompt_tokens":5,"prompt":"%b"}' % (b"a" * LARGE_BYTES)

    assert in_steps(Api.COMPLETIONS, body)[0].prompts == ()
    assert in_steps(Api.OTHER, body) == (parse_request(Api.OTHER, body), 0)


@pytest.mark.parametrize("body", [b"[%b]", b'{"model":%b1}', b'{"model":1,"a":"%b"}', b'{"prompt":"%b'])
def test_in_steps_a_body_that_cannot_be_read_is_the_same_bad_request(body):
    body %= b" " * LARGE_BYTES
    with pytest.raises(BadRequestError) as plain:
        parse_request(Api.COMPLETIONS, body)
    with pytest.raises(BadRequestError) as stepped:
        in_steps(Api.COMPLETIONS, body)

    assert (stepped.value.message, stepped.value.param) == (plain.value.message, plain.value.param)
