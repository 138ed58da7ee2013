"""Whose turn it is: each message of a gateway, and what it is answered with."""

import pytest

from tests.gateway.stream import BODY, Stage
from tests.gateway.wire import (
    CHAT,
    DESTINATION,
    kinds,
    request_body,
    request_headers,
    request_trailers,
    response_body,
    response_headers,
    response_trailers,
    told,
)

GET = ((":method", "GET"), (":path", "/v1/models"), ("x-request-id", "req-1"))
UPLOAD = ((":method", "POST"), (":path", "/v1/files"), ("x-request-id", "req-1"))


def one_endpoint(**options):
    return Stage(n=1, **options)


def pieces(answers):
    return [answer.piece for answer in answers if answer.piece is not None]


# The request.


def test_full_duplex_answers_nothing_before_the_body_is_complete():
    stream = one_endpoint().stream()

    assert stream.say(request_headers(), request_body(BODY)) == []
    answers = stream.say(request_body(b"", end=True))

    assert kinds(answers) == ["request_headers", "request_body"]
    assert answers[0].headers[DESTINATION] == b"10.0.0.1:8000"
    assert answers[0].metadata == "10.0.0.1:8000"
    assert pieces(answers) == [(BODY, True)]


@pytest.mark.parametrize("cut", range(0, len(BODY) + 1, 37))
def test_a_body_may_be_cut_anywhere(cut):
    stream = one_endpoint().stream()

    answers = stream.say(
        request_headers(), request_body(BODY[:cut]), request_body(BODY[cut:]), request_body(end=True)
    )

    assert kinds(answers) == ["request_headers", "request_body"]
    assert pieces(answers) == [(BODY, True)]


def test_a_long_body_goes_back_in_pieces_of_at_most_62000_bytes():
    body = b'{"model": "m", "prompt": "%s"}' % (b"x" * 130_000)
    stream = one_endpoint().stream()

    answers = stream.say(request_headers(), request_body(body), request_body(end=True))

    assert [(len(data), end) for data, end in pieces(answers)] == [
        (62_000, False),
        (62_000, False),
        (6_028, True),
    ]
    assert b"".join(data for data, _ in pieces(answers)) == body


def test_a_body_of_exactly_one_piece_is_one_piece():
    body = b'{"model": "m", "prompt": "%s"}' % (b"x" * (62_000 - 28))
    stream = one_endpoint().stream()

    answers = stream.say(request_headers(), request_body(body, end=True))

    assert [(len(data), end) for data, end in pieces(answers)] == [(62_000, True)]


def test_trailers_end_a_body_in_full_duplex_and_are_answered_last():
    stream = one_endpoint().stream()

    answers = stream.say(request_headers(), request_body(BODY), request_trailers())

    assert kinds(answers) == ["request_headers", "request_body", "request_trailers"]
    assert pieces(answers) == [(BODY, False)]


def test_trailers_after_no_body_at_all():
    stream = one_endpoint().stream()

    answers = stream.say(request_headers(UPLOAD), request_trailers())

    assert kinds(answers) == ["request_headers", "request_trailers"]


def test_a_prompt_that_is_ended_by_trailers_alone_is_refused():
    stream = one_endpoint().stream()

    [answer] = stream.say(request_headers(), request_trailers())

    assert answer.status == 400


def test_buffered_answers_the_head_at_once_and_the_pick_with_the_body():
    stream = one_endpoint().stream()

    [head] = stream.say(request_headers(mode="BUFFERED"))
    [body] = stream.say(request_body(BODY, end=True))

    assert (head.kind, head.headers, head.metadata) == ("request_headers", {}, None)
    assert body.kind == "request_body"
    assert body.headers[DESTINATION] == b"10.0.0.1:8000"
    assert body.metadata == "10.0.0.1:8000"
    assert body.piece is None


def test_a_buffered_body_that_trailers_follow_is_whole():
    stream = one_endpoint().stream()

    answers = stream.say(request_headers(mode="BUFFERED"), request_body(BODY, end=False), request_trailers())

    assert kinds(answers) == ["request_headers", "request_body", "request_trailers"]
    assert answers[1].metadata == "10.0.0.1:8000"


def test_buffered_trailers_without_a_body_are_refused():
    stream = one_endpoint().stream()

    answers = stream.say(request_headers(mode="BUFFERED"), request_trailers())

    assert [a.status for a in answers] == [None, 400]


def test_a_part_of_a_body_is_routed_by_load():
    stage = one_endpoint()
    stream = stage.stream()

    answers = stream.say(request_headers(mode="BUFFERED_PARTIAL"), request_body(BODY[:50], end=False))
    stream.close()

    assert answers[1].metadata == "10.0.0.1:8000"
    assert stage.records[0].prompt_tokens_estimated is None


@pytest.mark.parametrize("mode", ["NONE", "STREAMED", "BUFFERED", "FULL_DUPLEX_STREAMED", None])
def test_a_request_without_a_body_is_picked_at_its_head(mode):
    stream = one_endpoint().stream()

    [answer] = stream.say(request_headers(GET, end=True, mode=mode))

    assert answer.kind == "request_headers"
    assert answer.metadata == "10.0.0.1:8000"


@pytest.mark.parametrize("mode", ["NONE", "STREAMED"])
def test_modes_that_show_no_body_in_time_pick_at_the_head(mode):
    stream = one_endpoint().stream()

    [answer] = stream.say(request_headers(mode=mode))

    assert answer.metadata == "10.0.0.1:8000"


def test_a_streamed_body_passes_unchanged():
    stream = one_endpoint().stream()
    stream.say(request_headers(mode="STREAMED"))

    answers = stream.say(request_body(b"abc"), request_body(b"", end=True))

    assert [(a.kind, a.piece) for a in answers] == [("request_body", None)] * 2


def test_a_gateway_that_does_not_say_its_modes_speaks_full_duplex():
    stream = one_endpoint().stream()

    assert stream.say(request_headers(mode=None)) == []


def test_a_body_that_nobody_reads_goes_back_as_it_comes():
    stream = one_endpoint().stream()

    [head] = stream.say(request_headers(UPLOAD))
    first = stream.say(request_body(b"a" * 70_000))
    last = stream.say(request_body(b"", end=True))

    assert head.metadata == "10.0.0.1:8000"
    assert [(len(data), end) for data, end in pieces(first)] == [(62_000, False), (8_000, False)]
    assert pieces(last) == [(b"", True)]


def test_a_buffered_body_that_nobody_reads_does_not_delay_the_pick():
    stream = one_endpoint().stream()

    [head] = stream.say(request_headers(UPLOAD, mode="BUFFERED"))
    [body] = stream.say(request_body(b"abc", end=True))

    assert head.metadata == "10.0.0.1:8000"
    assert (body.kind, body.piece) == ("request_body", None)


# The answer.


def routed(stage, **head):
    stream = stage.stream()
    stream.say(request_headers(**head), request_body(BODY, end=True))
    return stream


def test_headers_depth_ends_after_the_head_of_the_answer():
    stream = routed(one_endpoint())

    [answer] = stream.say(response_headers())

    assert answer.kind == "response_headers"
    assert stream.over


def test_none_depth_ends_with_the_pick():
    assert routed(one_endpoint(depth="none")).over
    assert routed(one_endpoint(depth="none"), mode="BUFFERED").over


def test_none_depth_waits_for_the_body_that_it_must_send_back():
    stream = one_endpoint(depth="none").stream()

    stream.say(request_headers(UPLOAD), request_body(b"abc"))
    before = stream.over
    stream.say(request_body(b"", end=True))

    assert (before, stream.over) == (False, True)


def test_none_depth_in_other_modes_ends_as_soon_as_nothing_must_go_back():
    for mode, messages in (
        ("NONE", [request_headers(mode="NONE")]),
        ("BUFFERED", [request_headers(UPLOAD, mode="BUFFERED")]),
        ("STREAMED", [request_headers(mode="STREAMED"), request_body(b"a")]),
    ):
        stream = one_endpoint(depth="none").stream()
        stream.say(*messages)
        assert stream.over, mode


def test_full_depth_in_full_duplex_sends_the_body_back_as_it_comes():
    stream = routed(one_endpoint(depth="full"), response_mode="FULL_DUPLEX_STREAMED")
    stream.say(response_headers())

    answers = stream.say(response_body(b"x" * 70_000), response_body(b"y", end=True))

    assert [(len(data), end) for data, end in pieces(answers)] == [
        (62_000, False),
        (8_000, False),
        (1, True),
    ]
    assert stream.over


@pytest.mark.parametrize("depth", ["none", "headers"])
def test_an_answer_in_full_duplex_is_sent_back_whole_at_every_depth(depth):
    stream = routed(one_endpoint(depth=depth), response_mode="FULL_DUPLEX_STREAMED")

    answers = stream.say(response_headers(), response_body(b"a"))
    before = stream.over
    answers += stream.say(response_body(b"b", end=True))

    assert kinds(answers) == ["response_headers", "response_body", "response_body"]
    assert (before, stream.over) == (False, True)


@pytest.mark.parametrize("mode", ["STREAMED", "BUFFERED"])
def test_full_depth_in_other_modes_lets_the_body_pass(mode):
    stream = routed(one_endpoint(depth="full"), response_mode=mode)
    stream.say(response_headers())

    answers = stream.say(response_body(b"abc"), response_body(b"d", end=True))

    assert [(a.kind, a.piece) for a in answers] == [("response_body", None)] * 2
    assert stream.over


def test_trailers_end_an_answer():
    stream = routed(one_endpoint(depth="full"), response_mode="STREAMED")

    answers = stream.say(response_headers(), response_body(b"abc"), response_trailers())

    assert kinds(answers) == ["response_headers", "response_body", "response_trailers"]
    assert stream.over


def test_an_answer_without_a_body_ends_with_its_head():
    stream = routed(one_endpoint(depth="full"), response_mode="STREAMED")

    stream.say(response_headers(end=True))

    assert stream.over


def test_full_depth_ends_at_the_head_where_the_gateway_shows_no_more():
    stream = routed(one_endpoint(depth="full"), response_mode="NONE")

    stream.say(response_headers())

    assert stream.over


# What should not happen.


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (response_headers(), "response_headers"),
        (response_body(b"abc", end=True), "response_body"),
        (response_trailers(), "response_trailers"),
        (request_body(b"abc", end=True), "request_body"),
        (request_trailers(), "request_trailers"),
    ],
)
def test_a_stream_that_begins_in_the_middle_changes_nothing(message, kind):
    stream = one_endpoint().stream()

    [answer] = stream.say(message)

    assert (answer.kind, answer.headers, answer.piece) == (kind, {}, None)
    assert stream.over


def test_a_gateway_that_only_lets_watch_is_left_alone():
    stream = one_endpoint().stream()

    assert stream.say(request_headers(observing=True)) == []
    assert stream.over


@pytest.mark.parametrize(
    "messages",
    [
        [b"\xff\xff"],
        [b""],
        [request_headers(), request_headers()],
        [request_headers(), response_headers()],
        [request_headers(GET, end=True), response_body(b"abc")],
        [request_headers(GET, end=True), response_trailers()],
        [request_headers(mode="BUFFERED"), response_body(b"abc")],
    ],
)
def test_a_broken_conversation_ends_with_a_fault(messages):
    from epp.gateway.picked import ProtocolFault

    stage = one_endpoint()
    stream = stage.stream()

    with pytest.raises(ProtocolFault):
        stream.say(*messages)
    stream.close()

    assert stream.over
    assert stage.in_flight() == len(stage.pool.director.unobserved)


def test_a_body_after_the_answers_head_is_a_fault():
    from epp.gateway.picked import ProtocolFault

    stream = routed(one_endpoint(depth="full"), response_mode="STREAMED")
    stream.say(response_headers())

    with pytest.raises(ProtocolFault):
        stream.say(request_body(b"late"))


def test_the_wire_is_envoys():
    """Field numbers, by hand: ProcessingRequest.request_headers is 2, end_of_stream 3; key 1, raw_value 3."""
    header = b"\x0a\x07:method\x1a\x03GET"
    head = b"\x0a" + bytes([len(header) + 2]) + b"\x0a" + bytes([len(header)]) + header + b"\x18\x01"
    stream = one_endpoint().stream()

    from tests.gateway.stream import CODEC

    [answer] = [a for a in stream.request.receive(CODEC.decode(b"\x12" + bytes([len(head)]) + head)) if a]

    # ProcessingResponse: dynamic_metadata 8, request_headers 1, response 1, header_mutation 2.
    assert b"\x42" in answer
    assert answer.startswith(b"\x0a")
    assert b"\x0a\x1ex-gateway-destination-endpoint\x1a\x0d10.0.0.1:8000" in answer
    assert told(answer).metadata == "10.0.0.1:8000"


def test_headers_may_stand_in_value_instead_of_raw_value():
    stream = one_endpoint().stream()

    [answer] = stream.say(request_headers(CHAT[:2], field="value", end=True))

    assert answer.status == 400  # /v1/chat/completions without a body: method and path were read


def test_a_mode_that_is_not_known_is_taken_for_full_duplex():
    from tests.gateway.wire import M, header_map

    config = M.ProtocolConfiguration(request_body_mode=99)
    head = M.HttpHeaders(headers=header_map(CHAT))
    message = M.ProcessingRequest(request_headers=head, protocol_config=config).SerializeToString()
    stream = one_endpoint().stream()

    answers = stream.say(message, request_body(BODY, end=True))

    assert kinds(answers) == ["request_headers", "request_body"]


def test_messages_that_do_not_exist_are_no_attributes():
    from tests.gateway.wire import M

    with pytest.raises(AttributeError):
        _ = M.NoMessage
