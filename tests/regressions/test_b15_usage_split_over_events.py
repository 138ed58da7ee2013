"""Usage that was split over events was replaced, or counted twice."""

import json

from epp.response import ResponseObserver, Usage

STREAM = "text/event-stream"


def observed(*events):
    observer = ResponseObserver(STREAM, None)
    for name, data in events:
        observer.feed(b"event: %s\ndata: %s\n\n" % (name.encode(), json.dumps(data).encode()))
    return observer.finish()


def start(tokens):
    return ("message_start", {"type": "message_start", "message": {"usage": {"input_tokens": tokens}}})


def delta(**usage):
    return ("message_delta", {"type": "message_delta", "usage": usage})


def test_usage_that_is_split_over_events_is_put_together_once():
    assert observed(start(100), delta(output_tokens=20)) == Usage(100, 20)


def test_running_totals_are_not_added_up():
    assert observed(start(100), delta(output_tokens=5), delta(output_tokens=20)) == Usage(100, 20)
    assert observed(start(100), delta(input_tokens=100, output_tokens=20)) == Usage(100, 20)
