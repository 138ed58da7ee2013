"""Usage was missed on last events that say that a response failed."""

import json

import pytest

from epp.response import ResponseObserver, Usage

STREAM = "text/event-stream"


def observed(*events):
    observer = ResponseObserver(STREAM, None)
    for name, data in events:
        observer.feed(b"event: %s\ndata: %s\n\n" % (name.encode(), json.dumps(data).encode()))
    return observer.finish()


@pytest.mark.parametrize("name", ["response.completed", "response.incomplete", "response.failed"])
def test_usage_of_every_last_event_is_counted(name):
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}
    assert observed((name, {"type": name, "response": {"id": "resp_1", "usage": usage}})) == Usage(7, 3, 4)


@pytest.mark.parametrize("response", [{"id": "resp_1", "usage": None}, {"id": "resp_1"}, None])
def test_a_last_event_without_usage_is_no_fault(response):
    assert observed(("response.failed", {"type": "response.failed", "response": response})) is None
