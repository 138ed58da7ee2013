"""Request heads as bytes."""

import pytest

from epp.http.request import encode_head
from epp.http.types import Origin, UpstreamRequest


def request(method=b"POST", target=b"/v1/completions", headers=(), body=b""):
    return UpstreamRequest(method, target, list(headers), body)


def test_head_is_request_line_host_headers_and_length():
    head = encode_head(
        request(headers=[(b"accept", b"*/*"), (b"X-User", b"\xe5\xbc\xa0")], body=b"{}"), b"10.0.0.1:8000"
    )

    assert head == (
        b"POST /v1/completions HTTP/1.1\r\nhost: 10.0.0.1:8000\r\naccept: */*\r\nX-User: \xe5\xbc\xa0\r\n"
        b"content-length: 2\r\n\r\n"
    )


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE", b"OPTIONS"])
def test_methods_without_a_body_send_no_length(method):
    assert encode_head(request(method), b"h:1") == method + b" /v1/completions HTTP/1.1\r\nhost: h:1\r\n\r\n"


@pytest.mark.parametrize(("method", "length"), [(b"POST", b"0"), (b"PUT", b"0"), (b"PATCH", b"0")])
def test_empty_body_of_other_methods_has_length_zero(method, length):
    assert encode_head(request(method), b"h:1").endswith(b"\r\ncontent-length: " + length + b"\r\n\r\n")


def test_body_of_a_get_has_a_length():
    assert encode_head(request(b"GET", body=b"abc"), b"h:1").endswith(b"\r\ncontent-length: 3\r\n\r\n")


@pytest.mark.parametrize(
    "bad",
    [
        request(headers=[(b"a", b"b\r\nc: d")]),
        request(headers=[(b"a\n", b"b")]),
        request(headers=[(b"a", b"b\r")]),
        request(target=b"/a HTTP/1.1\r\nx: y\r\n"),
        request(target=b"/a b"),
        request(method=b"GET /\r\n"),
    ],
)
def test_what_would_break_the_framing_is_refused(bad):
    with pytest.raises(ValueError, match="line break"):
        encode_head(bad, b"h:1")


@pytest.mark.parametrize(
    ("host", "authority"),
    [("10.0.0.1", b"10.0.0.1:8000"), ("vllm-0.svc", b"vllm-0.svc:8000"), ("fd00::10", b"[fd00::10]:8000")],
)
def test_authority_brackets_ipv6(host, authority):
    assert Origin("http", host, 8000).authority == authority
