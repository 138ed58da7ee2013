"""Header rules in both directions."""

import re

import pytest

from epp.http.headers import Credentials, find_request_id, new_request_id, request_headers, response_headers


def to_endpoint(*headers, client=b"192.0.2.7", scheme=b"http", **options):
    return request_headers(list(headers), request_id=b"r-1", client=client, scheme=scheme, **options)


def to_client(*headers, endpoint=b"10.0.0.1:8000", keep_content_length=True, date=None, server=None):
    return response_headers(
        list(headers),
        request_id=b"r-1",
        endpoint=endpoint,
        keep_content_length=keep_content_length,
        date=date,
        server=server,
    )


OWN = [(b"x-request-id", b"r-1"), (b"x-forwarded-for", b"192.0.2.7"), (b"x-forwarded-proto", b"http")]
ANSWER = [(b"x-epp-endpoint", b"10.0.0.1:8000"), (b"x-request-id", b"r-1")]


def test_unnamed_request_headers_pass_byte_for_byte_in_order():
    passed = [
        (b"Authorization", b"Bearer k"),
        (b"x-user", b"\xe5\xbc\xa0"),
        (b"cookie", b"a=1"),
        (b"Cookie", b"b=2"),
        (b"x-session-id", b"s1"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (b"authorization", b""),
        (b"x-data-parallel-rank", b"1"),
    ]

    assert to_endpoint(*passed) == passed + OWN


@pytest.mark.parametrize(
    "name",
    [
        b"Connection", b"Keep-Alive", b"Proxy-Connection", b"Proxy-Authorization", b"Proxy-Authenticate", b"TE",
        b"Trailer", b"Transfer-Encoding", b"Upgrade", b"Content-Length", b"Expect", b"X-Request-ID",
    ],
)  # fmt: skip
def test_hop_by_hop_and_owned_request_headers_are_dropped(name):
    assert to_endpoint((name, b"1"), (name.lower(), b"2")) == OWN


@pytest.mark.parametrize(
    "name",
    [
        b"x-gateway-destination-endpoint", b"X-Gateway-Destination-Endpoint",
        b"x-gateway-destination-endpoint-subset", b"x-gateway-destination-endpoint-served",
        b"x-gateway-inference-fairness-id", b"x-gateway-inference-objective", b"x-gateway-model-name-rewrite",
        b"x-llm-d-inference-objective", b"x-llm-d-request-dropped-reason", b"x-llm-d-slo-ttft-ms",
        b"x-slo-ttft-ms", b"x-slo-tpot-ms", b"x-prefiller-host-port", b"x-encoder-hosts-ports",
        b"x-data-parallel-host-port", b"x-kv-cache-source-host-port", b"x-epp-explain", b"X-EPP-Endpoint",
    ],
)  # fmt: skip
def test_routing_headers_of_a_client_never_reach_an_endpoint(name):
    assert to_endpoint((name, b"10.9.9.9:1"), (name, b"10.9.9.9:2")) == OWN


def test_headers_listed_by_connection_are_dropped_in_both_directions():
    listed = [
        (b"connection", b"close, X-Secret"),
        (b"Connection", b"other"),
        (b"x-secret", b"1"),
        (b"Other", b"2"),
    ]

    assert to_endpoint(*listed) == OWN
    assert to_client(*listed) == ANSWER


@pytest.mark.parametrize("value", [b"close", b"keep-alive", b"Keep-Alive, Close", b""])
def test_connection_that_lists_no_header_drops_only_itself(value):
    assert to_endpoint((b"connection", value), (b"accept", b"*/*")) == [(b"accept", b"*/*"), *OWN]


def test_connection_cannot_remove_what_the_router_sets():
    headers = to_endpoint(
        (b"connection", b"x-forwarded-for, x-request-id, authorization"),
        (b"x-forwarded-for", b"198.51.100.1"),
        (b"authorization", b"Bearer theirs"),
        trusted=True,
        credentials=Credentials(frozenset({b"authorization"}), b"Bearer ours"),
    )

    assert headers == [
        (b"authorization", b"Bearer ours"),
        (b"x-request-id", b"r-1"),
        (b"x-forwarded-for", b"198.51.100.1, 192.0.2.7"),
        (b"x-forwarded-proto", b"http"),
    ]


def test_host_of_the_client_becomes_x_forwarded_host():
    assert to_endpoint((b"Host", b"public.example")) == [*OWN, (b"x-forwarded-host", b"public.example")]


def test_values_are_those_of_the_head_whatever_one_of_the_same_names_said():
    first = to_endpoint((b"Host", b"one.example"), (b"Connection", b"x-a"), (b"x-a", b"1"))
    second = to_endpoint((b"Host", b"two.example"), (b"Connection", b"close"), (b"x-a", b"2"))

    assert first == [*OWN, (b"x-forwarded-host", b"one.example")]
    assert second == [(b"x-a", b"2"), *OWN, (b"x-forwarded-host", b"two.example")]


def test_the_first_host_counts():
    headers = to_endpoint((b"Host", b"one.example"), (b"host", b"two.example"))

    assert headers == [*OWN, (b"x-forwarded-host", b"one.example")]


FORWARDED = [
    (b"host", b"inner.example"),
    (b"X-Forwarded-For", b"198.51.100.1"),
    (b"x-forwarded-for", b"198.51.100.2"),
    (b"x-forwarded-proto", b"https"),
    (b"x-forwarded-host", b"outer.example"),
    (b"X-Forwarded-Port", b"443"),
    (b"Forwarded", b"for=198.51.100.1;proto=https"),
    (b"X-Real-IP", b"198.51.100.1"),
]


def test_what_an_untrusted_peer_says_of_callers_behind_it_is_replaced():
    assert to_endpoint(*FORWARDED) == [*OWN, (b"x-forwarded-host", b"inner.example")]


def test_what_a_trusted_proxy_says_is_kept_and_the_peer_is_appended():
    assert to_endpoint(*FORWARDED, trusted=True) == [
        (b"X-Forwarded-Port", b"443"),
        (b"X-Real-IP", b"198.51.100.1"),
        (b"x-request-id", b"r-1"),
        (b"x-forwarded-for", b"198.51.100.1, 198.51.100.2, 192.0.2.7"),
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-host", b"outer.example"),
        (b"forwarded", b"for=198.51.100.1;proto=https, for=192.0.2.7"),
    ]


@pytest.mark.parametrize(
    ("client", "element"), [(b"2001:db8::7", b'for="[2001:db8::7]"'), (None, b"for=unknown")]
)
def test_the_peer_is_appended_to_forwarded_as_rfc_7239_writes_it(client, element):
    headers = to_endpoint((b"forwarded", b"for=_a"), (b"Forwarded", b"for=_b"), client=client, trusted=True)

    assert headers[-1] == (b"forwarded", b"for=_a, for=_b, " + element)


def test_a_trusted_proxy_that_says_nothing_is_the_caller():
    assert to_endpoint((b"host", b"x"), trusted=True) == [*OWN, (b"x-forwarded-host", b"x")]


SENT = [
    (b"Authorization", b"Bearer theirs"),
    (b"X-Api-Key", b"theirs"),
    (b"cookie", b"a=1"),
    (b"X-API-KEY", b"2"),
]
WITHHELD = frozenset({b"authorization", b"x-api-key"})


def test_credentials_of_clients_pass_unless_something_takes_their_place():
    assert to_endpoint(*SENT) == SENT + OWN


def test_credentials_of_clients_that_are_checked_here_reach_no_endpoint():
    assert to_endpoint(*SENT, credentials=Credentials(WITHHELD)) == [(b"cookie", b"a=1"), *OWN]


def test_the_routers_own_credential_takes_the_place_of_the_clients():
    assert to_endpoint(*SENT, credentials=Credentials(WITHHELD, b"Bearer ours")) == [
        (b"cookie", b"a=1"),
        (b"authorization", b"Bearer ours"),
        *OWN,
    ]


def test_peer_without_an_address_appends_nothing():
    assert to_endpoint(client=None, scheme=b"https") == [
        (b"x-request-id", b"r-1"),
        (b"x-forwarded-proto", b"https"),
    ]


def test_unnamed_response_headers_pass_byte_for_byte_in_order():
    passed = [
        (b"Content-Type", b"text/event-stream; charset=utf-8"),
        (b"set-cookie", b"a=1"),
        (b"Set-Cookie", b"b=\xff"),
        (b"endpoint-load-metrics", b"TEXT"),
        (b"x-llm-d-request-dropped-reason", b"rejected-saturated"),
    ]

    assert to_client(*passed) == passed + ANSWER


@pytest.mark.parametrize(
    "name",
    [b"Date", b"Server", b"Connection", b"Keep-Alive", b"Transfer-Encoding", b"Trailer", b"X-Request-Id", b"X-EPP-Decision"],
)  # fmt: skip
def test_response_headers_the_router_owns_are_dropped(name):
    assert to_client((name, b"1"), (name.lower(), b"2")) == ANSWER


def test_response_has_exactly_one_date_and_one_server_when_the_router_writes_them():
    headers = to_client(
        (b"date", b"d1"), (b"server", b"uvicorn"), (b"Date", b"d2"), date=b"d3", server=b"epp"
    )

    assert headers == [(b"date", b"d3"), (b"server", b"epp"), *ANSWER]


@pytest.mark.parametrize(
    ("keep", "expected"), [(True, [(b"content-length", b"40"), *ANSWER]), (False, ANSWER)]
)
def test_content_length_is_kept_only_when_it_frames_the_body_that_is_sent(keep, expected):
    assert to_client((b"Content-Length", b"40"), keep_content_length=keep) == expected


def test_endpoint_header_can_be_switched_off():
    assert to_client(endpoint=None) == [(b"x-request-id", b"r-1")]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"abc", b"abc"),
        (b"!~", b"!~"),
        (b"x" * 128, b"x" * 128),
        (b"x" * 129, None),
        (b"", None),
        (b"a b", None),
        (b"a\tb", None),
        (b"a\x7f", None),
        (b"\xe5\xbc\xa0", None),
        (b"abc\n", None),
    ],
)
def test_request_id_is_1_to_128_visible_ascii_characters(value, found):
    assert find_request_id([(b"accept", b"*/*"), (b"X-Request-ID", value)]) == found


def test_first_request_id_counts():
    assert find_request_id([(b"x-request-id", b""), (b"x-request-id", b"abc")]) is None
    assert find_request_id([(b"x-request-id", b"abc"), (b"x-request-id", b"def")]) == b"abc"
    assert find_request_id([(b"x-request-ix", b"abc")]) is None


def test_new_request_ids_are_valid_and_differ():
    first, second = new_request_id(), new_request_id()

    assert re.fullmatch(rb"[0-9a-f]{32}", first)
    assert first != second
