"""Another model in a body whose other bytes stay."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.errors import BadRequestError
from epp.request import LARGE_BYTES, with_model
from epp.request.model_value import _by_members, _by_tokens


def result(steps):
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


def replaced(body, model="new"):
    return result(with_model(body, model))[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', b'{"model":"new"}'),
        (b'{"model":"m","seed":9007199254740993}', b'{"model":"new","seed":9007199254740993}'),
        (b' {\n\t"a" : 1e-7 , "model" :\r "m" , "b":[ ] } ', b' {\n\t"a" : 1e-7 , "model" :\r "new" , "b":[ ] } '),
        (b'{"x":{"model":"m"},"y":["model",":"],"model":"m"}', b'{"x":{"model":"m"},"y":["model",":"],"model":"new"}'),
        (b'{"s":"\\"model\\":\\"m\\"","model":"m"}', b'{"s":"\\"model\\":\\"m\\"","model":"new"}'),
        (b'{"mod\\u0065l":"\\u006d"}', b'{"mod\\u0065l":"new"}'),
        (b'{"model":"a\\"b\\\\"}', b'{"model":"new"}'),
        (b'{"model":null,"a":1}', b'{"model":"new","a":1}'),
        (b'{"model":null}', b'{"model":"new"}'),
        (b'{"model": "" }', b'{"model": "new" }'),
        (b'\xef\xbb\xbf{"model":"m"}', b'\xef\xbb\xbf{"model":"new"}'),
    ],
)  # fmt: skip
def test_the_value_alone_is_replaced(body, expected):
    assert replaced(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"messages":[]}', b'{"model":"new","messages":[]}'),
        (b" { } ", b' {"model":"new" } '),
        (b'\xef\xbb\xbf{"a":{"model":"m"}}', b'\xef\xbb\xbf{"model":"new","a":{"model":"m"}}'),
        (b'{"s":"\\ud800"}', b'{"model":"new","s":"\\ud800"}'),
    ],
)
def test_a_model_that_is_not_there_comes_first(body, expected):
    assert replaced(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"a","x":1,"model":"b"}', b'{"model":"new","x":1,"model":"new"}'),
        (b'{"model":null,"mod\\u0065l":"b"}', b'{"model":"new","mod\\u0065l":"new"}'),
        (b'{"a":1,"a":12,"model":"m"}', b'{"a":1,"a":12,"model":"new"}'),
        (b'{"a":12,"a":1,"model":"m"}', b'{"a":12,"a":1,"model":"new"}'),
        (b'{"a":[{"model":"x"}],"model":"m","a":"}"}', b'{"a":[{"model":"x"}],"model":"new","a":"}"}'),
        (b'{"model":"\\ud800","\\ud800\\u0065":1}', b'{"model":"new","\\ud800\\u0065":1}'),
    ],
)
def test_keys_that_repeat_and_lone_surrogates_are_read_bracket_by_bracket(body, expected):
    assert replaced(body) == expected


def test_the_new_name_is_written_as_json():
    assert replaced(b'{"model":"m"}', 'a"\\é') == '{"model":"a\\"\\\\é"}'.encode()


def test_a_large_body_with_a_key_that_repeats_is_refused():
    body = b'{"a":1,"a":"' + b"x" * LARGE_BYTES + b'","model":"m"}'

    with pytest.raises(BadRequestError, match="a key stands twice in the body"):
        replaced(body)


def test_a_large_body_is_read_with_pauses():
    body = b'{"a":"' + b"x" * LARGE_BYTES + b'","model":"m"}'

    assert result(with_model(body, "new")) == (body.replace(b'"m"', b'"new"'), 1)


def test_many_keys_are_read_with_pauses():
    members = b",".join(b'"k%d":1' % number for number in range(4500))
    once, twice = b'{"model":"m",%b}' % members, b'{"model":"m","k1":2,%b}' % members

    assert result(with_model(once, "new")) == (once.replace(b'"m"', b'"new"'), 2)
    assert result(with_model(twice, "new")) == (twice.replace(b'"m"', b'"new"'), 2)


TEXTS = st.text('a"\\{}[]:,é \n', max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["model", "messages", "a", "ä", 'm"', "{", "\\"])


@given(st.dictionaries(KEYS, VALUES), st.sampled_from([None, 1]), st.booleans())
def test_both_ways_of_reading_find_the_same_places_and_the_rest_stays(members, indent, ascii_only):
    members["model"] = "m"
    body = json.dumps(members, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")

    places, _ = result(_by_members(body, 0))

    assert places == result(_by_tokens(body, 0))[0]
    assert json.loads(replaced(body)) == {**json.loads(body), "model": "new"}
