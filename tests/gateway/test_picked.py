"""One request of a gateway: what the director is told, what the heads become, and how it ends."""

import gzip
import json

import pytest

from epp.compose import CoreOptions
from epp.director import EndReason
from epp.http.budget import BodyBudget
from epp.http.headers import Credentials
from epp.request import ModelRewrites, RewriteRule, RewriteTarget
from epp.security import KeyGate, KeyRing, parse_keys
from tests.director.core import TIERED, Pool
from tests.gateway.stream import BODY, Stage
from tests.gateway.wire import (
    CHAT,
    DESTINATION,
    request_body,
    request_headers,
    response_body,
    response_headers,
)

SENTINEL = "SENTINEL-9f3"
TWO_TOLD = (
    TIERED.replace(
        "schedulingProfiles:",
        "- {type: max-score-picker, name: two, parameters: {maxNumOfEndpoints: 2}}\nschedulingProfiles:",
    )
    + "  - {pluginRef: two}\n"
)


def picked(stage, headers=CHAT, body=BODY, **head):
    """A stream up to its pick, and the answer that carries it."""
    stream = stage.stream()
    answers = stream.say(request_headers(headers, **head), request_body(body, end=True))
    return stream, next(a for a in answers if a.metadata is not None)


def refused(stage, headers=CHAT, body=BODY, **head):
    """The answer to a request that is refused, and its stream."""
    stream = stage.stream()
    answers = stream.say(request_headers(headers, **head))
    if not stream.over:
        answers += stream.say(request_body(body, end=True))
    stream.close()
    return answers[-1]


def error(answer):
    return json.loads(answer.body)["error"]


# Heads.


def test_header_and_metadata_name_the_same_list_best_first():
    stage = Stage(pool=Pool(n=3, config=TWO_TOLD))
    _, answer = picked(stage)

    assert answer.metadata == answer.headers[DESTINATION].decode()
    first, second = answer.metadata.split(",")
    assert first != second
    assert stage.pool.ledger.requests[stage.pool.core.table.pool.by_address[first].slot] == 1


def test_routing_headers_from_outside_are_removed():
    headers = (
        *CHAT,
        ("X-Gateway-Destination-Endpoint-Served", "6.6.6.6:1"),
        ("x-gateway-destination-endpoint", "6.6.6.6:1"),
        ("x-gateway-destination-endpoint-subset", "6.6.6.6:1"),
        ("x-llm-d-inference-objective", "o"),
        ("x-prefiller-host-port", "6.6.6.6:1"),
        ("x-epp-admin-key", "k"),
        ("authorization", "Bearer mine"),
    )

    _, answer = picked(Stage(n=1), headers)

    assert answer.headers[DESTINATION] == b"10.0.0.1:8000"
    assert answer.removed == (
        "x-epp-admin-key",
        "x-gateway-destination-endpoint-served",
        "x-gateway-destination-endpoint-subset",
        "x-llm-d-inference-objective",
        "x-prefiller-host-port",
    )


def test_a_request_id_is_kept_or_made():
    _, kept = picked(Stage(n=1))
    _, made = picked(Stage(n=1), CHAT[:-1])

    assert "x-request-id" not in kept.headers
    assert made.headers["x-request-id"] == b"made-up"


def test_headers_outside_of_latin_1_break_nothing():
    headers = (*CHAT[:-1], ("x-request-id", "€"), ("x-epp-€", "1"))

    _, answer = picked(Stage(n=1), headers, field="value")

    assert answer.headers["x-request-id"] == b"made-up"
    assert answer.removed == ("x-epp-€",)


def test_the_routers_credentials_take_the_place_of_the_clients():
    credentials = Credentials(frozenset({b"authorization", b"x-api-key"}), b"Bearer theirs")
    headers = (*CHAT, ("authorization", "Bearer mine"), ("x-api-key", "mine"))

    _, answer = picked(Stage(n=1, options={"credentials": credentials}), headers)

    assert answer.headers["authorization"] == b"Bearer theirs"
    assert answer.removed == ("x-api-key",)


def test_the_clients_credentials_can_be_withheld():
    credentials = Credentials(frozenset({b"authorization", b"x-api-key"}))
    headers = (*CHAT, ("authorization", "Bearer mine"))

    _, answer = picked(Stage(n=1, options={"credentials": credentials}), headers)

    assert answer.removed == ("authorization",)


def test_the_answer_says_who_gave_it_and_nobody_else_can():
    stream, _ = picked(Stage(n=1))

    [answer] = stream.say(
        response_headers(headers=[("x-epp-decision", "forged"), ("x-epp-endpoint", "forged")])
    )

    assert answer.headers == {"x-request-id": b"req-1", "x-epp-endpoint": b"10.0.0.1:8000"}
    assert answer.removed == ("x-epp-decision",)


def test_the_endpoint_is_not_shown_if_the_operator_does_not_want_it():
    stream, _ = picked(Stage(n=1, options={"limits": {"expose_endpoint": False}}))

    [answer] = stream.say(response_headers())

    assert answer.headers == {"x-request-id": b"req-1"}


def test_a_receipt_is_shown_to_who_may_see_it():
    seen = []

    def explain(exchange, headers):
        seen.append(headers)
        return "winner=10.0.0.1:8000"

    asking = (*CHAT, ("x-epp-explain", "1"))
    stream, _ = picked(Stage(n=1, options={"explain": explain}), asking)
    [answer] = stream.say(response_headers())

    assert answer.headers["x-epp-decision"] == b"winner=10.0.0.1:8000"
    assert (b"x-request-id", b"req-1") in seen[0]


def test_plugins_add_their_headers_to_the_answer():
    config = TIERED.replace(
        "schedulingProfiles:", "- {type: session-affinity-scorer, name: s}\nschedulingProfiles:"
    )
    stage = Stage(pool=Pool(n=1, config=config + "  - {pluginRef: s, weight: 1}\n"))
    stream, _ = picked(stage)

    [answer] = stream.say(response_headers())

    assert "x-session-token" in answer.headers


def test_the_director_sees_what_the_gateway_sees():
    stage = Stage(n=1)
    headers = (*CHAT, ("x-forwarded-for", "1.1.1.1, 10.9.9.9"), ("X-Two", "a"), ("x-two", "b"))
    stream, _ = picked(stage, headers)
    seen = stream.request._exchange.head

    assert seen.path == "/v1/chat/completions"
    assert seen.method == "POST"
    assert seen.client == "10.9.9.9"
    assert seen.headers["x-two"] == "a, b"
    assert ":path" not in seen.headers


def test_a_path_is_decoded_and_loses_its_query():
    stage = Stage(n=1)
    stream = stage.stream()
    stream.say(request_headers([(":method", "GET"), (":path", "/v1/a%20b?c=%20")], end=True))

    assert stream.request._exchange.head.path == "/v1/a b"


def test_a_head_without_method_and_path_is_a_completion():
    stage = Stage(n=1)
    stream = stage.stream()

    [answer] = [
        a
        for a in stream.say(request_headers([]), request_body(b'{"model": "m", "prompt": "x"}', end=True))
        if a.metadata
    ]

    assert answer.metadata == "10.0.0.1:8000"


# Which endpoints.


@pytest.mark.parametrize(
    "hint", [["10.0.0.2:8000"], ["10.0.0.2"], "10.0.0.2:8000", "10.9.9.9, 10.0.0.2", ["10.0.0.2", "[::1]"]]
)
def test_the_subset_hint_is_kept_to(hint):
    stage = Stage(n=3)
    metadata = {"envoy.lb.subset_hint": {DESTINATION + "-subset": hint}}

    told = {picked(stage, metadata=metadata)[1].metadata for _ in range(4)}

    assert told == {"10.0.0.2:8000"}


@pytest.mark.parametrize("hint", [[], "", ["10.0.0.9:8000"], ["10.0.0.1:9"]])
def test_a_subset_without_a_ready_endpoint_is_503(hint):
    stage = Stage(n=3)

    answer = refused(stage, metadata={"envoy.lb.subset_hint": {DESTINATION + "-subset": hint}})

    assert answer.status == 503
    assert answer.headers["x-llm-d-request-dropped-reason"] == b"rejected-no-endpoints"
    assert stage.in_flight() == 0


def test_the_subset_hint_can_be_passed_over():
    stage = Stage(n=3, options={"limits": {"subset_hint": False}})

    _, answer = picked(stage, metadata={"envoy.lb.subset_hint": {DESTINATION + "-subset": []}})

    assert answer.metadata


def test_other_metadata_is_no_hint():
    _, answer = picked(Stage(n=1), metadata={"envoy.lb.subset_hint": {"x": "y"}, "other": {"a": "b"}})

    assert answer.metadata == "10.0.0.1:8000"


def test_ipv6_endpoints_are_told_in_brackets():
    from epp.endpoints.spec import parse_endpoint

    pool = Pool(n=1)
    pool.core.upkeep.sync_endpoints([parse_endpoint("http://[fd00::1]:8000")], 0.5)
    metadata = {"envoy.lb.subset_hint": {DESTINATION + "-subset": ["[fd00::1]"]}}

    _, answer = picked(Stage(pool=pool), metadata=metadata)

    assert answer.metadata == "[fd00::1]:8000"


def test_a_form_is_routed_by_the_model_that_it_names():
    form = (
        b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper\r\n'
        b'--b\r\ncontent-disposition: form-data; name="file"\r\n\r\nxxx\r\n--b--\r\n'
    )
    stage = Stage(n=1)
    headers = (
        (":method", "POST"),
        (":path", "/v1/audio/transcriptions"),
        ("content-type", "multipart/form-data; boundary=b"),
    )

    stream, _ = picked(stage, headers, form)
    stream.close()

    assert stage.records[0].model == "whisper"
    assert stage.records[0].request_bytes == len(form)


# Refusals.


def test_a_refusal_is_the_proxys_own_error():
    answer = refused(Stage(n=1), body=b"{")

    assert answer.status == 400
    assert error(answer)["type"] == "invalid_request_error"
    assert answer.headers == {"content-type": b"application/json", "x-request-id": b"req-1"}


def test_no_endpoint_is_503_and_counted_once():
    stage = Stage(pool=Pool(n=0))

    answer = refused(stage)

    assert answer.status == 503
    assert answer.headers["retry-after"] == b"1"
    assert [(r.status, r.reason) for r in stage.records] == [(503, EndReason.REJECTED)]


def test_a_body_over_the_limit_is_413():
    stage = Stage(n=1, options={"limits": {"max_body_bytes": 100}})

    answer = refused(stage, body=b"x" * 101)

    assert answer.status == 413


def test_bodies_share_a_budget_and_give_it_back():
    budget = BodyBudget(150)
    stage = Stage(n=1, options={"budget": budget})
    first = stage.stream()
    first.say(request_headers(), request_body(b"x" * 100))

    answer = refused(stage, body=b"x" * 51)
    held = budget.held_bytes
    first.close()

    assert answer.status == 503
    assert (held, budget.held_bytes) == (100, 0)


def test_a_body_goes_off_the_budget_with_the_pick():
    budget = BodyBudget(1 << 20)
    stage = Stage(n=1, options={"budget": budget})

    picked(stage)

    assert budget.held_bytes == 0


def test_a_key_is_asked_for():
    gate = KeyGate(KeyRing(parse_keys("alice=secret")))
    stage = Stage(n=1, options={"gate": gate})

    without = refused(stage)
    _, let_in = picked(stage, (*CHAT, ("authorization", "Bearer secret")))

    assert without.status == 401
    assert let_in.metadata == "10.0.0.1:8000"


def test_closed_paths_are_403():
    stage = Stage(n=1, options={"closed": lambda path: "this route is closed here"})

    answer = refused(stage)

    assert answer.status == 403
    assert error(answer)["message"] == "this route is closed here"


def test_more_requests_than_allowed_are_503():
    stage = Stage(n=1, options={"limits": {"max_requests": 1}})
    first = stage.stream()
    first.say(request_headers())

    second = refused(stage)
    first.close()
    _, third = picked(stage)

    assert second.status == 503
    assert third.metadata


def test_a_body_that_does_not_come_is_408():
    stage = Stage(n=1)
    stream = stage.stream()
    stream.say(request_headers(), request_body(BODY[:10]))

    [answer] = stream.time_out()
    stream.close()

    assert answer.status == 408
    assert [r.reason for r in stage.records] == [EndReason.TIMEOUT]


def test_an_error_of_ours_is_500_and_the_stream_ends(caplog):
    stage = Stage(n=1, options={"closed": lambda path: 1 / 0})

    answer = refused(stage)

    assert answer.status == 500
    assert error(answer)["message"] == "internal error"
    assert "ZeroDivisionError" in caplog.text


def test_a_refused_client_without_a_head_gets_an_answer_too():
    stream = Stage(n=1).stream()

    [answer] = stream.time_out()

    assert answer.status == 408
    assert "x-request-id" not in answer.headers


@pytest.mark.parametrize(
    "body", [b'{"prompt": "%s"' % SENTINEL.encode(), b'{"model": 1, "prompt": "%s"}' % SENTINEL.encode()]
)
def test_prompts_are_not_in_refusals(body, caplog):
    caplog.set_level("DEBUG")

    answer = refused(Stage(n=1), body=body)

    assert answer.status == 400
    assert SENTINEL.encode() not in answer.body
    assert SENTINEL not in caplog.text


# How it ends.


def test_an_answer_that_does_not_stream_is_complete_with_its_head():
    stage = Stage(n=1)
    stream, _ = picked(stage)
    before = stage.in_flight()

    stream.say(response_headers())
    after = stage.in_flight()
    stream.close()

    assert (before, after) == (1, 0)
    assert [(r.reason, r.status) for r in stage.records] == [(EndReason.COMPLETE, 200)]


def test_a_stream_of_tokens_is_counted_on_after_its_head():
    stage = Stage(n=1)
    body = BODY[:-1] + b', "stream": true}'
    stream, _ = picked(stage, body=body)
    waiting = stage.tokens()

    stream.say(response_headers(headers=[("content-type", "text/event-stream")]))
    stream.close()

    assert stage.in_flight() == 1
    assert (waiting > 0, stage.tokens()) == (True, 0)  # the first byte means that the prefill is done
    assert [(r.reason, r.status) for r in stage.records] == [(EndReason.UNOBSERVED, 200)]


def test_an_error_of_the_endpoint_takes_the_claim_back():
    stage = Stage(n=1)
    body = BODY[:-1] + b', "stream": true}'
    stream, _ = picked(stage, body=body)

    stream.say(response_headers("503"))
    stream.close()

    assert stage.in_flight() == 0
    assert stage.pool.index.blocks(0, stage.pool.endpoint(1).slot) == 0
    assert stage.records[0].status == 503


@pytest.mark.parametrize("name", [":status", "status"])
def test_the_status_is_read_under_both_names(name):
    stage = Stage(n=1)
    stream, _ = picked(stage)

    stream.say(response_headers("404", name=name))
    stream.close()

    assert stage.records[0].status == 404


def test_full_depth_reads_usage():
    stage = Stage(n=1, depth="full")
    stream, _ = picked(stage, response_mode="STREAMED")
    answer = b'{"usage": {"prompt_tokens": 150, "completion_tokens": 2}}'

    stream.say(response_headers(headers=[("content-type", "application/json")]))
    for at in range(len(answer)):
        stream.say(response_body(answer[at : at + 1], end=at == len(answer) - 1))
    stream.close()

    [record] = stage.records
    assert record.reason is EndReason.COMPLETE
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (150, 2)
    assert record.response_bytes == len(answer)


def test_an_endpoints_error_has_no_usage():
    stage = Stage(n=1, depth="full")
    stream, _ = picked(stage, response_mode="STREAMED")

    stream.say(response_headers("500"), response_body(b'{"usage": {"prompt_tokens": 1}}', end=True))

    assert stage.records[0].usage is None


def test_a_stream_that_breaks_in_the_middle_of_an_answer_is_a_client_that_left():
    stage = Stage(n=1, depth="full")
    stream, _ = picked(stage, response_mode="STREAMED")
    stream.say(response_headers(), response_body(b"abc"))

    stream.close()

    assert [r.reason for r in stage.records] == [EndReason.CLIENT_DISCONNECTED]
    assert stage.in_flight() == 0


def test_a_client_that_leaves_before_its_body_is_complete_holds_nothing():
    stage = Stage(n=1)
    stream = stage.stream()
    stream.say(request_headers(), request_body(BODY[:10]))

    stream.close()

    assert stage.in_flight() == 0
    assert [r.reason for r in stage.records] == [EndReason.CLIENT_DISCONNECTED]


def test_a_stream_of_which_nothing_came_is_no_request():
    stage = Stage(n=1)

    stage.stream().close()

    assert stage.records == []
    assert stage.around.active == 0


def test_buffered_streams_of_a_gateway_that_shows_no_answers_last_as_long_as_requests_and_teach():
    stage = Stage(n=2)
    stream, first = picked(stage, mode="BUFFERED")

    stream.close()

    assert stage.in_flight() == 0
    assert [r.reason for r in stage.records] == [EndReason.UNOBSERVED]
    assert sum(stage.pool.index.blocks(0, slot) for slot in (0, 1)) > 0
    assert {picked(stage, mode="BUFFERED")[1].metadata for _ in range(3)} == {first.metadata}


def test_a_gateway_that_never_showed_an_answer_leaves_its_requests_to_estimation():
    stage = Stage(n=1)
    stream, _ = picked(stage)

    stream.close()

    assert stage.in_flight() == 1
    assert [(r.reason, r.status) for r in stage.records] == [(EndReason.UNOBSERVED, None)]


def test_a_gateway_that_shows_answers_ended_a_request_whose_stream_ends_before():
    stage = Stage(n=1)
    shown, _ = picked(stage)
    shown.say(response_headers())

    stream, _ = picked(stage)
    stream.close()

    assert stage.in_flight() == 0
    assert stage.records[-1].reason is EndReason.CLIENT_DISCONNECTED


def test_none_depth_counts_on_after_the_pick():
    stage = Stage(n=1, depth="none")
    stream, _ = picked(stage)

    stream.close()

    assert stage.in_flight() == 1
    assert [r.reason for r in stage.records] == [EndReason.UNOBSERVED]


def test_a_shutdown_is_told_as_one():
    stage = Stage(n=1)
    stream = stage.stream()
    stream.say(request_headers())

    stream.close(shutdown=True)

    assert [(r.reason, r.status) for r in stage.records] == [(EndReason.SHUTDOWN, 503)]


# Who served.


def test_the_endpoint_that_served_gets_ledger_and_claim():
    stage = Stage(n=2)
    stream, answer = picked(stage, body=BODY[:-1] + b', "stream": true}')
    first = stage.pool.core.table.pool.by_address[answer.metadata]
    other = next(e for e in stage.pool.core.table.pool.endpoints if e is not first)
    before = stage.pool.index.blocks(0, first.slot)

    [head] = stream.say(response_headers(served=other.address))
    stream.close()

    assert [stage.pool.ledger.requests[e.slot] for e in (first, other)] == [0, 1]
    assert before > 0
    assert [stage.pool.index.blocks(0, e.slot) for e in (first, other)] == [0, before]
    assert head.headers["x-epp-endpoint"] == other.address.encode()
    assert stage.records[-1].endpoint == other.address


def test_the_pick_that_served_changes_nothing():
    stage = Stage(n=2)
    stream, answer = picked(stage)

    stream.say(response_headers(served=answer.metadata))

    assert stage.records[0].endpoint == answer.metadata


def test_a_server_that_is_none_of_the_pools_holds_nothing():
    stage = Stage(n=1)
    stream, _ = picked(stage)

    [head] = stream.say(response_headers(served="10.9.9.9:1"))
    stream.close()

    assert head.headers["x-epp-endpoint"] == b"10.9.9.9:1"
    assert stage.in_flight() == 0
    assert stage.records[0].endpoint is None
    assert stage.pool.index.blocks(0, 0) == 0


# Models that a rule replaced.

REWRITTEN = CoreOptions(
    seed=7,
    timer=lambda: 0.0,
    rewrites=ModelRewrites([RewriteRule(("m",), (RewriteTarget("m-v2"),), "canary")]),
)
JSON = [("content-type", "application/json")]
EVENTS = [("content-type", "text/event-stream")]


def rewriting(depth="headers"):
    return Stage(pool=Pool(n=1, options=REWRITTEN), depth=depth)


def test_a_held_body_goes_on_with_another_model_and_its_length():
    stream = rewriting().stream()
    headers = (*CHAT, ("accept-encoding", "gzip"))

    _, answer = stream.say(request_headers(headers, mode="BUFFERED"), request_body(BODY, end=True))

    assert answer.replaced == BODY.replace(b'"m"', b'"m-v2"')
    assert answer.headers["content-length"] == b"%d" % len(answer.replaced)
    assert answer.removed == ("accept-encoding",)


def test_a_body_in_full_duplex_comes_back_with_another_model():
    stream = rewriting().stream()

    head, *pieces = stream.say(request_headers(), request_body(BODY[:9]), request_body(BODY[9:], end=True))

    assert b"".join(answer.piece[0] for answer in pieces) == BODY.replace(b'"m"', b'"m-v2"')
    assert [answer.piece[1] for answer in pieces] == [True]
    assert "content-length" not in head.headers


def test_a_compressed_body_comes_back_as_it_was_before():
    stream = rewriting().stream()
    headers = (*CHAT, ("content-encoding", "gzip"))

    head, piece = stream.say(request_headers(headers), request_body(gzip.compress(BODY), end=True))

    assert piece.piece == (BODY.replace(b'"m"', b'"m-v2"'), True)
    assert head.removed == ("content-encoding",)


def test_a_body_of_another_model_stays():
    stream = rewriting().stream()
    body = BODY.replace(b'"m"', b'"n"')

    _, answer = stream.say(request_headers(mode="BUFFERED"), request_body(body, end=True))

    assert answer.replaced is None
    assert "content-length" not in answer.headers


@pytest.mark.parametrize("depth", ["none", "headers", "full"])
def test_a_whole_answer_gets_the_clients_name_and_its_length(depth):
    stream = rewriting(depth).stream()
    stream.say(request_headers(mode="BUFFERED", response_mode="BUFFERED"), request_body(BODY, end=True))

    head, body = stream.say(
        response_headers(headers=[*JSON, ("content-length", "16")]),
        response_body(b'{"model":"m-v2"}', end=True),
    )

    assert "content-length" not in head.removed
    assert (body.replaced, body.headers) == (b'{"model":"m"}', {"content-length": b"13"})
    assert stream.over


def test_pieces_of_an_answer_get_the_clients_name_and_no_length():
    stage = rewriting()
    stream = stage.stream()
    stream.say(request_headers(response_mode="STREAMED"), request_body(BODY, end=True))

    head, *pieces = stream.say(
        response_headers(headers=[*EVENTS, ("content-length", "99")]),
        response_body(b'data: {"model":"m-'),
        response_body(b"v"),
        response_body(b'2"}\n\n'),
        response_body(b'data: {"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n', end=True),
    )

    assert "content-length" in head.removed
    assert [piece.replaced for piece in pieces] == [b'data: {"model":"m"', b"", b"}\n\n", None]
    assert all(piece.headers == {} for piece in pieces)
    assert stage.records[0].usage.completion_tokens == 2
    assert stage.records[0].reason is EndReason.COMPLETE


def test_an_answer_in_full_duplex_comes_back_with_the_clients_name():
    stream = rewriting().stream()
    stream.say(request_headers(response_mode="FULL_DUPLEX_STREAMED"), request_body(BODY, end=True))

    _, *pieces = stream.say(
        response_headers(headers=JSON), response_body(b'{"model":"m-v2"}'), response_body(b"", end=True)
    )

    assert [piece.piece for piece in pieces] == [(b'{"model":"m"}', False), (b"", True)]


@pytest.mark.parametrize(("status", "headers"), [("404", JSON), ("200", [("content-type", "text/plain")])])
def test_an_answer_without_a_name_is_left_at_its_head(status, headers):
    stream = rewriting("none").stream()
    stream.say(request_headers(response_mode="STREAMED"), request_body(BODY, end=True))

    [answer] = stream.say(response_headers(status, headers=[*headers, ("content-length", "2")]))

    assert "content-length" not in answer.removed
    assert stream.over


def test_an_answer_that_is_not_shown_ends_with_the_pick():
    stream = rewriting("none").stream()

    stream.say(request_headers(mode="BUFFERED"), request_body(BODY, end=True))

    assert stream.over


def test_an_answer_without_a_body_keeps_its_length():
    stream = rewriting().stream()
    stream.say(request_headers(response_mode="STREAMED"), request_body(BODY, end=True))

    [answer] = stream.say(response_headers(headers=[*JSON, ("content-length", "0")], end=True))

    assert "content-length" not in answer.removed
    assert stream.over
