"""C11 (AX p2074): an unreadable :status became 0. D19 (GIE p2842): subset hints in another shape failed open."""

import pytest

from epp.director import EndReason
from tests.gateway.stream import BODY, Stage
from tests.gateway.wire import DESTINATION, M, request_body, request_headers, response_headers

HINT = DESTINATION + "-subset"


@pytest.mark.parametrize("status", ["abc", "", "20", "2000", "٢٠٠", "000", "099", "600", "999"])
def test_an_unreadable_status_is_an_endpoint_that_does_not_speak_http(status):
    stage = Stage(n=1)
    stream = stage.stream()
    stream.say(request_headers(), request_body(BODY, end=True))

    [answer] = stream.say(response_headers(status))
    stream.close()

    [record] = stage.records
    assert answer.kind == "response_headers"
    assert (record.reason, record.status, record.error) == (
        EndReason.UPSTREAM_ABORTED,
        502,
        "upstream_protocol_error",
    )
    assert stage.in_flight() == 0


def test_an_absent_status_too():
    stage = Stage(n=1)
    stream = stage.stream()
    head = M.ProcessingRequest(response_headers=M.HttpHeaders()).SerializeToString()

    stream.say(request_headers(), request_body(BODY, end=True), head)

    assert stage.records[0].error == "upstream_protocol_error"


def asked(hint):
    stream = Stage(n=3).stream()
    metadata = {"envoy.lb.subset_hint": {HINT: hint}}
    return stream.say(request_headers(metadata=metadata), request_body(BODY, end=True))


@pytest.mark.parametrize("hint", ["10.0.0.1,10.0.0.2:8000", ["10.0.0.1", "10.0.0.2:8000"]])
def test_a_hint_is_kept_to_in_both_shapes(hint):
    picked = {asked(hint)[0].metadata for _ in range(8)}

    assert picked <= {"10.0.0.1:8000", "10.0.0.2:8000"}


@pytest.mark.parametrize("hint", ["10.0.0.1", ["10.0.0.1"]])
def test_an_ip_alone_is_enough(hint):
    assert asked(hint)[0].metadata == "10.0.0.1:8000"


@pytest.mark.parametrize("hint", [["10.9.9.9"], "10.9.9.9", "", []])
def test_no_match_is_503_and_never_all(hint):
    [answer] = asked(hint)

    assert answer.status == 503
