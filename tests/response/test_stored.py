"""The id of a stored response is read from the beginning of an answer, however it is cut."""

import json

import pytest

from epp.response import StoredResponseReader

# As vLLM 0.32 orders its fields.
ANSWER = b'{"id":"resp_12ab","created_at":1796041452,"incomplete_details":null,"model":"m","output":[{"id":"msg_1"}]}'
STREAM = (
    b'event: response.created\ndata: {"response":{"id":"resp_12ab","created_at":1796041452,"model":"m"},'
    b'"sequence_number":0,"type":"response.created"}\n\nevent: response.in_progress\ndata: {}\n\n'
)


def read(*chunks):
    reader = StoredResponseReader()
    return [reader.feed(chunk) for chunk in chunks]


@pytest.mark.parametrize("answer", [ANSWER, STREAM])
def test_the_first_piece_of_an_answer_tells_the_id(answer):
    assert read(answer) == ["resp_12ab"]


@pytest.mark.parametrize("answer", [ANSWER, STREAM])
def test_the_id_is_told_once_wherever_the_answer_is_cut(answer):
    for cut in range(len(answer) + 1):
        told = read(answer[:cut], answer[cut:])
        assert [name for name in told if name] == ["resp_12ab"]


@pytest.mark.parametrize("answer", [ANSWER, STREAM])
def test_the_id_is_told_when_the_answer_comes_byte_by_byte(answer):
    told = read(*(bytes([byte]) for byte in answer))
    assert [name for name in told if name] == ["resp_12ab"]


@pytest.mark.parametrize(
    "answer",
    [
        b'  {"model":"m", "metadata":{"id":"no"}, "output":[{"id":"no"},"id"], "id" : "resp_12ab"}',
        b'{"note":"\\"id\\":\\"no\\"","a":":","id":"resp_\\u0031\\u0032ab"}',
        b'data: {"type":"response.created","id":"no","response":{"object":"response","id":"resp_12ab"}}\n\n',
    ],
)
def test_the_id_may_stand_anywhere_in_the_head_at_its_own_level(answer):
    for cut in range(len(answer) + 1):
        assert [name for name in read(answer[:cut], answer[cut:]) if name] == ["resp_12ab"]


@pytest.mark.parametrize(
    "answer",
    [
        b'{"object":"response"}',
        b'{"id":null,"model":"m"}',
        b'{"id":""}',
        b'{"id":"' + b"x" * 257 + b'"}',
        b'{"id":"\xff"}',
        b"[]{}]",
        b":",
        b"data: :",
        b'data: {"error":{"id":"no"}}\n\ndata: {"response":{"id":"late"}}\n\n',
        b": keep-alive\n\n",
        b"",
    ],
)
def test_an_answer_that_names_no_response_tells_nothing(answer):
    assert read(answer) == [None]


def test_nothing_is_looked_for_beyond_16_kib():
    reader = StoredResponseReader()
    assert reader.feed(json.dumps({"pad": "x" * 16_400}).encode()[:-1]) is None
    assert reader.feed(b',"id":"resp_1"}') is None
