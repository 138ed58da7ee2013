"""session-affinity-scorer: both strategies, and the memory of sessions."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.contracts import PickObserver, ResponseHeaderPlugin
from epp.scheduling.scorers.session_affinity import (
    EncodedEndpointAffinity,
    EncodedEndpointParameters,
    SessionAffinityParameters,
    SessionIdAffinity,
    SessionIdParameters,
    SessionIdSource,
    build_session_affinity,
)
from epp.scheduling.scorers.sessions import SessionBindings
from tests.scheduling.builders import context, cycle, fleet

POOL = fleet(3)
TOKEN = "MTAuMC4wLjI6ODAwMA=="  # 10.0.0.2:8000


def scores(plugin, headers, pool=POOL, now=0.0):
    return list(plugin.score(cycle(pool, headers=headers, now=now)))


def by_id(ttl_s=300.0, size=10, headers=("x-session-id",)):
    return SessionIdAffinity("s", SessionBindings(ttl_s, size), headers)


def test_the_answer_carries_a_token_that_leads_back():
    plugin = build_session_affinity("s", SessionAffinityParameters(), context())

    assert plugin.response_headers(POOL[1]) == (("x-session-token", TOKEN),)
    assert scores(plugin, {"x-session-token": TOKEN}) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "token",
    ["", "?", "MTAuMC4w", "////", base64.b64encode(b"10.0.0.9:8000").decode(), "10.0.0.2:8000", TOKEN * 2],
)
def test_a_token_of_nobody_prefers_nobody(token):
    assert scores(EncodedEndpointAffinity("s"), {"x-session-token": token}) == [0.0, 0.0, 0.0]


def test_no_token_prefers_nobody():
    assert scores(EncodedEndpointAffinity("s"), {}) == [0.0, 0.0, 0.0]


def test_the_token_of_an_endpoint_that_is_no_candidate_prefers_nobody():
    assert scores(EncodedEndpointAffinity("s"), {"x-session-token": TOKEN}, (POOL[0], POOL[2])) == [0.0, 0.0]


def test_the_header_of_the_token_can_be_another():
    parameters = SessionAffinityParameters(encoded_endpoint=EncodedEndpointParameters("X-Token"))
    plugin = build_session_affinity("s", parameters, context())

    assert plugin.response_headers(POOL[1]) == (("x-token", TOKEN),)
    assert scores(plugin, {"x-token": TOKEN}) == [0.0, 1.0, 0.0]
    assert scores(plugin, {"x-session-token": TOKEN}) == [0.0, 0.0, 0.0]


def test_a_session_stays_where_its_first_request_went():
    plugin = build_session_affinity("s", SessionAffinityParameters("session_id"), context())
    headers = {"x-session-id": "s1"}
    assert scores(plugin, headers) == [0.0, 0.0, 0.0]

    plugin.on_picked(cycle(POOL, headers=headers), POOL[2])

    assert scores(plugin, headers) == [0.0, 0.0, 1.0]
    assert scores(plugin, {"x-session-id": "s2"}) == [0.0, 0.0, 0.0]
    assert scores(plugin, {}) == [0.0, 0.0, 0.0]


def test_a_session_moves_only_when_its_endpoint_is_no_candidate():
    plugin, headers = by_id(), {"x-session-id": "s1"}
    plugin.on_picked(cycle(POOL, headers=headers), POOL[0])

    plugin.on_picked(cycle(POOL, headers=headers), POOL[1])
    assert scores(plugin, headers) == [1.0, 0.0, 0.0]

    plugin.on_picked(cycle(POOL[1:], headers=headers), POOL[1])
    assert scores(plugin, headers) == [0.0, 1.0, 0.0]


def test_a_request_without_a_session_binds_nothing():
    bindings = SessionBindings(300.0, 10)
    plugin = SessionIdAffinity("s", bindings)

    plugin.on_picked(cycle(POOL, headers={"x-session-id": " "}), POOL[0])
    plugin.on_picked(cycle(POOL), POOL[0])

    assert len(bindings) == 0


def test_the_first_source_that_is_not_empty_counts():
    sources = (SessionIdSource("X-Chat"), SessionIdSource("x-user"))
    parameters = SessionAffinityParameters("session_id", session_id=SessionIdParameters(sources))
    plugin = build_session_affinity("s", parameters, context())
    plugin.on_picked(cycle(POOL, headers={"x-chat": "c", "x-user": "u"}), POOL[0])

    assert scores(plugin, {"x-chat": "c"}) == [1.0, 0.0, 0.0]
    assert scores(plugin, {"x-user": "c"}) == [1.0, 0.0, 0.0]
    assert scores(plugin, {"x-user": "u"}) == [0.0, 0.0, 0.0]
    assert scores(plugin, {"x-chat": "", "x-user": "c"}) == [1.0, 0.0, 0.0]


def test_an_unused_session_is_forgotten_after_its_time():
    plugin, headers = by_id(ttl_s=10.0), {"x-session-id": "s1"}
    plugin.on_picked(cycle(POOL, headers=headers, now=100.0), POOL[0])

    assert scores(plugin, headers, now=110.0) == [1.0, 0.0, 0.0]
    assert scores(plugin, headers, now=110.1) == [0.0, 0.0, 0.0]
    plugin.on_picked(cycle(POOL, headers=headers, now=110.0), POOL[1])
    assert scores(plugin, headers, now=120.0) == [1.0, 0.0, 0.0]
    plugin.on_picked(cycle(POOL, headers=headers, now=121.0), POOL[1])
    assert scores(plugin, headers, now=121.0) == [0.0, 1.0, 0.0]


def test_the_session_that_was_used_longest_ago_makes_room():
    bindings = SessionBindings(300.0, 2)
    for number, session in enumerate(["a", "b", "a", "c"]):
        bindings.bind(session, session, float(number))

    assert [bindings.address_of(session, 4.0) for session in "abc"] == ["a", None, "c"]
    assert len(bindings) == 2


def test_many_that_expire_together_are_forgotten_in_small_steps():
    bindings = SessionBindings(10.0, 1000)
    for number in range(20):
        bindings.bind(str(number), "a", 0.0)

    bindings.bind("new", "b", 100.0)
    assert len(bindings) == 13
    bindings.bind("new", "b", 100.0)
    bindings.bind("new", "b", 100.0)
    assert len(bindings) == 1
    assert bindings.address_of("new", 100.0) == "b"


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3), st.integers(0, 5)), max_size=60),
    st.integers(1, 4),
)
def test_against_a_naive_memory(uses, size):
    bindings, known, now = SessionBindings(6.0, size), {}, 0.0
    for session, endpoint, pause in uses:
        now += pause
        bindings.bind(session, str(endpoint), now)
        known.pop(session, None)
        known[session] = (str(endpoint), now)
        known = dict(list(known.items())[-size:])

        expected = {s: address if now - at <= 6.0 else None for s, (address, at) in known.items()}
        assert {s: bindings.address_of(s, now) for s in "abcdefgh"} == {
            s: expected.get(s) for s in "abcdefgh"
        }
        assert len(bindings) <= size


def test_only_one_strategy_answers_and_only_the_other_remembers():
    encoded, remembered = EncodedEndpointAffinity("s"), by_id()

    assert isinstance(encoded, ResponseHeaderPlugin)
    assert not isinstance(encoded, PickObserver)
    assert not isinstance(remembered, ResponseHeaderPlugin)
    assert isinstance(remembered, PickObserver)


@pytest.mark.parametrize("name", ["", "x y", "x:y", "x\r\ny", "ä"])
def test_what_is_no_header_is_refused(name):
    (token,) = EncodedEndpointParameters(name).faults()
    (source,) = SessionIdSource(name).faults()

    assert (token.key, token.message) == ("headerName", "is not the name of a header")
    assert (source.key, source.message) == ("header", "is not the name of a header")
    assert list(EncodedEndpointParameters("X-Any_1").faults()) == []


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "x-request-id", "X-Epp-Endpoint"])
def test_a_token_cannot_take_the_place_of_a_header_that_somebody_else_sets(name):
    (fault,) = EncodedEndpointParameters(name).faults()

    assert (fault.key, fault.message) == (
        "headerName",
        "is the name of a header that the router or HTTP itself sets",
    )
