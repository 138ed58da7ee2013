"""Whether a request has a valid key."""

import pytest

from epp.security import KeyGate, KeyRing, parse_keys

BEARER = b"authorization"
API_KEY = b"x-api-key"


@pytest.fixture
def gate():
    return KeyGate(KeyRing(parse_keys("team-a=one\ntwo\n")))


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ([(BEARER, b"Bearer one")], "team-a"),
        ([(BEARER, b"bearer one")], "team-a"),
        ([(BEARER, b"BEARER   one ")], "team-a"),
        ([(BEARER, b"Bearer two")], None),
        ([(API_KEY, b"one")], "team-a"),
        ([(API_KEY, b" one ")], "team-a"),
        ([(BEARER, b"Basic eDp5"), (API_KEY, b"one")], "team-a"),
        ([(BEARER, b"Bearer wrong"), (API_KEY, b"one")], "team-a"),
        ([(BEARER, b"Bearer one"), (API_KEY, b"wrong")], "team-a"),
    ],
)
def test_a_valid_key_is_admitted_by_its_name(gate, headers, name):
    admission = gate.admit("POST", [(b"host", b"x"), *headers])

    assert (admission.error, admission.key_name) == (None, name)
    assert gate.refused == {"missing": 0, "wrong": 0}


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(BEARER, b"")],
        [(BEARER, b"bearer")],
        [(BEARER, b"Bearer ")],
        [(BEARER, b"one")],
        [(BEARER, b"Basic one")],
        [(BEARER, b"Bearerone")],
        [(API_KEY, b"")],
        [(API_KEY, b"  ")],
        [(b"proxy-authorization", b"Bearer one")],
        [(b"cookie", b"one")],
    ],
)
def test_without_a_key_a_request_is_refused(gate, headers):
    admission = gate.admit("POST", headers)

    assert admission.error.status == 401
    assert admission.error.message == "an API key is needed: send Authorization: Bearer KEY"
    assert admission.key_name is None
    assert gate.refused == {"missing": 1, "wrong": 0}


@pytest.mark.parametrize(
    "headers",
    [
        [(BEARER, b"Bearer three")],
        [(BEARER, b"Bearer one two")],
        [(BEARER, b"Bearer \xff\xfe")],
        [(API_KEY, b"ONE")],
        [(BEARER, b"Bearer wrong"), (BEARER, b"Bearer one")],
        [(API_KEY, b"wrong"), (API_KEY, b"one")],
    ],
)
def test_with_a_wrong_key_a_request_is_refused(gate, headers):
    admission = gate.admit("GET", headers)

    assert admission.error.code == "invalid_api_key"
    assert admission.error.message == "the API key is not valid"
    assert gate.refused == {"missing": 0, "wrong": 1}


def test_the_keys_can_be_replaced(gate):
    gate.keys = KeyRing(parse_keys("three"))

    assert gate.admit("GET", [(BEARER, b"Bearer three")]).error is None
    assert gate.admit("GET", [(BEARER, b"Bearer one")]).error is not None


ASKS = (b"access-control-request-method", b"POST")


@pytest.mark.parametrize("headers", [[ASKS], [ASKS, (b"content-length", b"0")]])
def test_a_preflight_of_a_browser_needs_no_key(gate, headers):
    assert gate.admit("OPTIONS", headers).error is None


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("OPTIONS", []),
        ("POST", [ASKS]),
        ("OPTIONS", [ASKS, (b"content-length", b"1")]),
        ("OPTIONS", [ASKS, (b"transfer-encoding", b"chunked")]),
        ("OPTIONS", [ASKS, (BEARER, b"Bearer wrong")]),
    ],
)
def test_what_only_looks_like_a_preflight_needs_one(gate, method, headers):
    assert gate.admit(method, headers).error is not None
