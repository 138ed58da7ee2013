"""Heads that two servers could read differently, or that are too large, are refused in our error format."""

import json

import pytest

from epp.proxy import ProxySettings
from tests.proxy.harness import Door

REFUSED = {
    "content-length and transfer-encoding": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "transfer-encoding and content-length": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "differing content-lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "equal content-lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "listed content-length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\nabc",
    "signed content-length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
    "huge content-length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\nabc",
    "folded header": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "folded empty header": b"GET / HTTP/1.1\r\nHost: x\r\nX:\r\n b\r\n\r\n",
    "leading space": b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: x\n\n",
    "bare carriage return": b"GET / HTTP/1.1\r\nHost: x\rY: b\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    "control character in a value": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x01b\r\n\r\n",
    "bad header name": b"GET / HTTP/1.1\r\nHost: x\r\nX(Y): a\r\n\r\n",
    "bad chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "chunk size in C notation": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "chunk size overflow": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "chunk longer than its size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "another transfer coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two transfer codings": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\nabc",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "content-length in a trailer": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a host that is a list": b"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "an asterisk for GET": b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "CONNECT": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "unknown method": b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n",
    "space in the target": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "target of another scheme": b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "unparsable target": b"GET http://x:y/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


async def never_called(scope, receive, send):
    """An application that a refused request must not reach with a body."""
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
async def test_refused_with_400_and_closed(raw):
    async with Door(never_called) as door, await door.client() as client:
        await client.send(raw)
        response = await client.read_response()
        assert response.status == 400
        assert response.value(b"content-type") == b"application/json"
        assert response.value(b"connection") == b"close"
        assert response.value(b"server") == b"epp"
        assert len(response.value(b"x-request-id")) == 32
        error = json.loads(response.body)["error"]
        assert error["type"] == "invalid_request_error"
        assert error["code"] == "bad_request"
        assert await client.read_to_end() == b""


async def test_the_request_id_is_echoed_when_it_came_before_the_fault():
    async with Door(never_called) as door, await door.client() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: abc\r\nX: 1\r\nBad Name: 1\r\n\r\n")
        response = await client.read_response()
        assert response.status == 400
        assert response.value(b"x-request-id") == b"abc"


SMALL = ProxySettings(max_head_bytes=1000, max_headers=10)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1000 + b"\r\n\r\n",
        b"GET /" + b"a" * 1000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: 1\r\n" * 10 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: 1\r\n" * 9 + b"\r\n",
    ],
    ids=["header", "target", "count", "count with trailers"],
)
async def test_a_head_over_a_limit_is_431(raw):
    async with Door(never_called, SMALL) as door, await door.client() as client:
        await client.send(raw)
        response = await client.read_response()
        assert response.status == 431
        assert json.loads(response.body)["error"]["code"] == "head_too_large"
        assert await client.read_to_end() == b""


async def test_a_header_that_never_ends_is_431():
    async with Door(never_called, SMALL) as door, await door.client() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        for _ in range(11):
            await client.send(b"a" * 100)
        assert (await client.read_response()).status == 431


async def test_empty_lines_without_end_are_431():
    async with Door(never_called, SMALL) as door, await door.client() as client:
        for _ in range(6):
            await client.send(b"\r\n" * 100)
        assert (await client.read_response()).status == 431


async def test_a_head_at_the_limits_is_served():
    head = b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 8 + b"Host: x\r\n"
    filler = b"Y: " + b"y" * (1000 - len(head) - len(b"Y: \r\n\r\n")) + b"\r\n\r\n"

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async with Door(app, SMALL) as door, await door.client() as client:
        await client.send(head + filler)
        assert (await client.read_response(bodiless=True)).status == 204


async def test_trailers_are_no_headers():
    seen = []

    async def app(scope, receive, send):
        seen.extend(scope["headers"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async with Door(app) as door, await door.client() as client:
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Admin: 1\r\n\r\n"
        )
        assert (await client.read_response(bodiless=True)).status == 204
    assert seen == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]


async def test_a_slow_head_is_408():
    async with Door(never_called, ProxySettings(head_timeout_s=0.05)) as door, await door.client() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
        response = await client.read_response()
        assert response.status == 408
        assert json.loads(response.body)["error"]["code"] == "request_timeout"
        assert await client.read_to_end() == b""


async def test_a_slow_body_is_408_even_when_the_application_has_no_limit():
    settings = ProxySettings(head_timeout_s=0.03, body_timeout_s=0.03)
    async with Door(never_called, settings) as door, await door.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
        assert (await client.read_response()).status == 408
        assert await client.read_to_end() == b""


async def test_an_idle_connection_is_closed_after_the_keep_alive_time():
    async with (
        Door(never_called, ProxySettings(keep_alive_s=0.05, head_timeout_s=0.01)) as door,
        await door.client() as client,
    ):
        assert await client.read_to_end() == b""


async def test_an_error_in_a_parser_callback_is_500_and_logged(monkeypatch, caplog):
    def broken(*_args):
        raise RuntimeError("bug")

    monkeypatch.setattr("epp.proxy.protocol.check_head", broken)
    async with Door(never_called) as door, await door.client() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        response = await client.read_response()
        assert response.status == 500
        assert json.loads(response.body)["error"]["type"] == "internal_error"
    assert "RuntimeError: bug" in caplog.text
