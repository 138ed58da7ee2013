"""The client's name for a model, put into answers as their bytes pass."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epp.response import answer_names

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"


def through(pieces, kind=JSON, model="m"):
    names = answer_names(kind, None, model)
    return [names.feed(piece) for piece in pieces]


def cuts(body):
    return [[body[:at], body[at:]] for at in range(len(body) + 1)] + [
        [body[at : at + 1] for at in range(len(body))]
    ]


DOCUMENTS = [
    (b'{"id":"1","model":"m-v2","choices":[]}', b'{"id":"1","model":"m","choices":[]}'),
    (b' {\n "a" : 1 ,"model" : "m-v2" } \n', b' {\n "a" : 1 ,"model" : "m" } \n'),
    (b'{"content":[{"model":"x"}],"model":"other"}', b'{"content":[{"model":"x"}],"model":"m"}'),
    (b'{"text":"\\"model\\":\\"m-v2\\"\\\\","model":"m-v2"}', b'{"text":"\\"model\\":\\"m-v2\\"\\\\","model":"m"}'),
    (b'{"mo\\u0064el":"m\\"-v2\\\\","x":"\\\\"}', b'{"mo\\u0064el":"m","x":"\\\\"}'),
    (b'{"type":"x","response":{"id":"r","model":"m-v2"}}', b'{"type":"x","response":{"id":"r","model":"m"}}'),
    (b'{"type":"message_start","message":{"model":"m-v2"}}', b'{"type":"message_start","message":{"model":"m"}}'),
    (b'{"model":"a","model":"b"}', b'{"model":"m","model":"b"}'),
]  # fmt: skip
UNCHANGED = [
    b'{"model":null,"a":1}',
    b'{"model":{"model":"x"},"b":["model",":","model"]}',
    b'{"choices":[{"message":{"model":"x"}}]}',
    b'{"other":{"model":"x"},"response":["model","x"],"message":{"inner":{"model":"x"}}}',
    b'["model","m-v2"]',
    b'{"model',
    b'"model":"m-v2"',
    b'{"\\ud800":1,"[]":{"model":"x"},"' + b"k" * 100 + b'":2}',
    b"",
]


@pytest.mark.parametrize(("body", "expected"), DOCUMENTS)
def test_the_name_in_a_document_is_replaced_wherever_it_is_cut(body, expected):
    assert all(b"".join(through(pieces)) == expected for pieces in cuts(body))


@pytest.mark.parametrize("body", UNCHANGED)
def test_everything_else_in_a_document_stays(body):
    assert all(b"".join(through(pieces)) == body for pieces in cuts(body))


def event(**fields):
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


STREAM = b"".join(
    [
        event(id="c", model="m-v2", choices=[{"delta": {"role": "assistant"}}]),
        event(id="c", model="m-v2", choices=[{"delta": {"content": 'say "model":"m-v2"'}}]),
        event(id="c", model="m-v2", choices=[{"delta": {"content": "b\r\n\n"}}]),
        b': a comment about "model":"m-v2"\n\n',
        event(type="content_block_delta", delta={"text": "no name here"}),
        b"event: response.created\n" + event(type="response.created", response={"model": "m-v2"}),
        b'data: {"a":[1,\ndata:2],\ndata: "model":"m-v2"}\n\n',
        b'data:{"model":"m-v2"}\r\n\r\ndata: {"model":"m-v2"}\r\r',
        b'dat: {"model":"m-v2"}\n\n',
        b"data: [DONE]\n\n",
    ]
)  # fmt: skip
RENAMED = (
    STREAM.replace(b'"model":"m-v2"', b'"model":"m"')
    .replace(b': a comment about "model":"m"', b': a comment about "model":"m-v2"')
    .replace(b'dat: {"model":"m"}', b'dat: {"model":"m-v2"}')
)


def test_the_name_in_every_event_is_replaced_wherever_the_stream_is_cut():
    assert b'\\"model\\":\\"m-v2\\"' in RENAMED
    assert all(b"".join(through(pieces, EVENTS)) == RENAMED for pieces in cuts(STREAM))


def test_the_name_is_replaced_when_each_event_comes_by_itself():
    pieces = [piece + b"\n\n" for piece in STREAM.split(b"\n\n")[:-1]]

    assert b"".join(through(pieces, EVENTS)) == RENAMED


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_the_name_is_replaced_in_a_stream_in_any_pieces(places):
    edges = [0, *sorted(places), len(STREAM)]
    pieces = [STREAM[begin:end] for begin, end in itertools.pairwise(edges)]

    assert b"".join(through(pieces, EVENTS)) == RENAMED


def test_a_key_that_is_written_with_escapes_is_found_in_events_too():
    assert through([b'data: {"mod\\u0065l":"m-v2"}\n\n'], EVENTS) == [b'data: {"mod\\u0065l":"m"}\n\n']


def test_events_that_begin_alike_are_renamed_alike():
    first, second = event(id="c", model="m-v2", n=1), event(id="c", model="m-v2", n=2)
    other = event(id="d", model="m-v3", n=3)

    assert through([first, second, other, first + second, second], EVENTS) == [
        event(id="c", model="m", n=1),
        event(id="c", model="m", n=2),
        event(id="d", model="m", n=3),
        event(id="c", model="m", n=1) + event(id="c", model="m", n=2),
        event(id="c", model="m", n=2),
    ]


def test_an_event_that_begins_alike_and_holds_more_lines_is_read():
    first = b'data: {"model":"m-v2","x":1}\n\n'
    more = b'data: {"model":"m-v2"}\r\rdata: {"model":"m-v2"}\n\n'

    assert through([first, more], EVENTS) == [
        b'data: {"model":"m","x":1}\n\n',
        b'data: {"model":"m"}\r\rdata: {"model":"m"}\n\n',
    ]


def test_nothing_waits_for_the_next_piece():
    pieces = [b'{"te', b'xt":"a', b'b","mod', b'el":"m', b'-v2","rest":', b"1}"]

    assert through(pieces) == [b'{"te', b'xt":"a', b'b","mod', b'el":"m"', b',"rest":', b"1}"]


def test_the_name_is_written_as_json():
    assert through([b'{"model":"x"}'], model='a"\\') == [b'{"model":"a\\"\\\\"}']


@pytest.mark.parametrize(
    ("kind", "coding"),
    [(None, None), ("text/plain", None), ("application/json", "gzip"), ("text/event-stream", "br")],
)
def test_answers_that_cannot_be_read_have_nobody(kind, coding):
    assert answer_names(kind, coding, "m") is None


def test_a_document_is_settled_when_its_name_was_replaced_or_it_has_ended():
    names = answer_names("application/json; charset=utf-8", "identity", "m")
    states = []
    for piece in (b'{"a":1,"model":', b'"m-v', b'2",', b'"model":"m-v2"}'):
        names.feed(piece)
        states.append(names.settled)

    assert states == [False, False, True, True]
    other = answer_names(JSON, None, "m")
    other.feed(b'{"a":[{}]}')
    assert other.settled
    assert not answer_names(EVENTS, None, "m").settled
