"""The observer of one response."""

import json

import pytest

from epp.response import ResponseObserver, Usage
from tests.response.transcripts import RECORDED, body_of

ANSWER = b'{"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}'
EVENT = b"data: " + ANSWER + b"\n\n"


def observe(content_type, *chunks, content_encoding=None, **limits):
    observer = ResponseObserver(content_type, content_encoding, **limits)
    for chunk in chunks:
        observer.feed(chunk)
    return observer.finish()


@pytest.mark.parametrize(
    "content_type", ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream ;x=y"]
)
def test_an_event_stream_is_read_as_events(content_type):
    assert observe(content_type, EVENT) == Usage(7, 3, None)
    assert observe(content_type, ANSWER) is None


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"]
)
def test_json_is_read_as_one_document(content_type):
    assert observe(content_type, ANSWER) == Usage(7, 3, None)
    assert observe(content_type, EVENT) is None


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/octet-stream", "multipart/form-data; boundary=x"]
)
def test_any_other_type_goes_unread(content_type):
    assert observe(content_type, ANSWER, EVENT) is None


@pytest.mark.parametrize("coding", ["gzip", "br", "gzip, identity"])
def test_a_coded_body_goes_unread(coding):
    assert observe("application/json", ANSWER, content_encoding=coding) is None


@pytest.mark.parametrize("coding", [None, "", "identity", " Identity "])
def test_an_identity_coding_is_none(coding):
    assert observe("application/json", ANSWER, content_encoding=coding) == Usage(7, 3, None)


def test_a_recorded_stream():
    assert observe("text/event-stream; charset=utf-8", body_of("sse-chat-usage.http")) == Usage(13, 6, 0)


def test_a_recorded_answer_in_any_pieces():
    answer = json.dumps(json.loads((RECORDED / "responses.json").read_bytes())["chat"]["body"]).encode()
    for cut in range(len(answer)):
        assert observe("application/json", answer[:cut], answer[cut:]) == Usage(734, 6, 0)
    assert observe("application/json", *(answer[i : i + 1] for i in range(len(answer)))) == Usage(734, 6, 0)


def test_an_answer_that_broke_off_has_no_usage():
    for end in range(len(ANSWER)):
        assert observe("application/json", ANSWER[:end]) is None


def test_an_answer_of_exactly_the_limit_is_read_and_one_byte_more_is_not():
    assert len(ANSWER) == 73
    assert observe("application/json", ANSWER[:40], ANSWER[40:], limit_bytes=73) == Usage(7, 3, None)
    assert observe("application/json", ANSWER[:40], ANSWER[40:], b" ", limit_bytes=73) is None
    assert observe("application/json", ANSWER[:40], ANSWER[40:], b" ", b"", limit_bytes=73) is None


def test_the_limit_holds_for_events_too():
    assert observe("text/event-stream", EVENT, limit_bytes=100) == Usage(7, 3, None)
    assert observe("text/event-stream", EVENT, limit_bytes=50) is None


def test_by_default_answers_up_to_a_mebibyte_are_read():
    padding = 1_048_576 - len(ANSWER)
    assert observe("application/json", b" " * padding, ANSWER) == Usage(7, 3, None)
    assert observe("application/json", b" " * padding, ANSWER, b" ") is None


def test_a_long_answer_is_not_kept():
    import tracemalloc

    observer = ResponseObserver("application/json", None, limit_bytes=10_000)
    tracemalloc.start()
    for _ in range(1000):
        observer.feed(b"x" * 1000)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
