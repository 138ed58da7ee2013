"""Heads and bodies that two servers could read differently: what is refused, what passes, and that nothing
desynchronises a connection, ours or an endpoint's.

Behind every hostile request comes another one. Either it is served as itself, or the connection was closed.
"""

import random

import pytest

from tests.hostile.kit import statuses

LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKS = b"5\r\nabcde\r\n0\r\n\r\n"
POST = b"POST /v1/completions"


def post(*fields: bytes, body: bytes = b"abcde") -> bytes:
    return b"\r\n".join([POST + b" HTTP/1.1", b"Host: x", *fields, b"", body])


def chunked(body: bytes = CHUNKS, *fields: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", *fields, body=body)


def get(target: bytes = b"/x", *fields: bytes, host: bytes = b"Host: x") -> bytes:
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", host, *fields, b"", b""])


REFUSED = {
    "CL.TE": post(
        b"Content-Length: %d" % (5 + len(SMUGGLED)),
        b"Transfer-Encoding: chunked",
        body=b"0\r\n\r\n" + SMUGGLED,
    ),
    "TE.CL": post(
        b"Content-Length: 4",
        b"Transfer-Encoding: chunked",
        body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    ),
    "TE.TE": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: x", body=CHUNKS + SMUGGLED),
    "TE.TE, the other first": post(b"Transfer-Encoding: x", b"Transfer-Encoding: chunked", body=CHUNKS),
    "a coding that ends in chunked": post(b"Transfer-Encoding: xchunked", body=CHUNKS),
    "a coding in quotes": post(b'Transfer-Encoding: "chunked"', body=CHUNKS),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;q=1", body=CHUNKS),
    "chunked, identity": post(b"Transfer-Encoding: chunked, identity", body=CHUNKS),
    "chunked, chunked": post(b"Transfer-Encoding: chunked, chunked", body=CHUNKS),
    "chunked and a comma": post(b"Transfer-Encoding: chunked,", body=CHUNKS),
    "a comma and chunked": post(b"Transfer-Encoding: , chunked", body=CHUNKS),
    "chunked and a blank": post(b"Transfer-Encoding: chunked ", body=CHUNKS),
    "chunked and a vertical tab": post(b"Transfer-Encoding: chunked\x0b", body=CHUNKS),
    "a vertical tab and chunked": post(b"Transfer-Encoding: \x0bchunked", body=CHUNKS),
    "chunked and a null byte": post(b"Transfer-Encoding: chunked\x00", body=CHUNKS),
    "a folded coding": post(b"Transfer-Encoding:\r\n chunked", body=CHUNKS),
    "no coding": post(b"Transfer-Encoding: ", body=CHUNKS),
    "a coding behind a bare line feed": post(b"X: y\nTransfer-Encoding: chunked", body=CHUNKS),
    "a coding behind a bare carriage return": post(b"X: y\rTransfer-Encoding: chunked", body=CHUNKS),
    "a blank before the colon": post(b"Transfer-Encoding : chunked", body=CHUNKS),
    "a dotless i": post("Transfer-Encod\u0131ng: chunked".encode(), body=CHUNKS),
    "a length with a plus": post(b"Content-Length: +5"),
    "a negative length": post(b"Content-Length: -5"),
    "a hexadecimal length": post(b"Content-Length: 0x5"),
    "two numbers": post(b"Content-Length: 5 5"),
    "no length": post(b"Content-Length:"),
    "an exponent": post(b"Content-Length: 5e0"),
    "a fraction": post(b"Content-Length: 5.0"),
    "digits of another script": post("Content-Length: \u0665".encode()),
    "digits with an underscore": post(b"Content-Length: 0_5"),
    "a length above 64 bits": post(b"Content-Length: 18446744073709551621"),
    "the same length twice": post(b"Content-Length: 5", b"Content-Length: 5"),
    "a list of lengths": post(b"Content-Length: 5, 5"),
    "a null byte in a name": post(b"Content-Length\x00: 5"),
    "a blank behind a chunk size": chunked(b"5 \r\nabcde\r\n0\r\n\r\n"),
    "a blank before a chunk size": chunked(b" 5\r\nabcde\r\n0\r\n\r\n"),
    "a signed chunk size": chunked(b"+5\r\nabcde\r\n0\r\n\r\n"),
    "a chunk size with an underscore": chunked(b"0_5\r\nabcde\r\n0\r\n\r\n"),
    "a chunk size above 64 bits": chunked(b"10000000000000005\r\nabcde\r\n0\r\n\r\n"),
    "no chunk size": chunked(b"\r\nabcde\r\n0\r\n\r\n"),
    "a bare line feed behind a chunk size": chunked(b"5\nabcde\r\n0\r\n\r\n"),
    "a bare carriage return behind a chunk size": chunked(b"5\rabcde\r\n0\r\n\r\n"),
    "two carriage returns behind a chunk size": chunked(b"5\r\r\nabcde\r\n0\r\n\r\n"),
    "a bare line feed behind a chunk": chunked(b"5\r\nabcde\n0\r\n\r\n"),
    "a bare line feed behind the last chunk": chunked(b"5\r\nabcde\r\n0\r\n\n"),
    "a line feed in a chunk extension": chunked(b"5;a\n" + SMUGGLED),
    "a carriage return in a chunk extension": chunked(b"5;a\rb\r\nabcde\r\n0\r\n\r\n"),
    "a line feed in a quoted extension": chunked(b'5;a="\n"\r\nabcde\r\n0\r\n\r\n'),
    "a null byte in a chunk extension": chunked(b"5;a\x00\r\nabcde\r\n0\r\n\r\n"),
    "a coding in a trailer": chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a length in a trailer": chunked(b"0\r\nContent-Length: 50\r\n\r\n"),
    "a folded trailer": chunked(b"0\r\nX: y\r\n z\r\n\r\n"),
    "a bare line feed in a trailer": chunked(b"0\r\nX: y\n\r\n"),
    "a null byte in the target": get(b"/x\x00y"),
    "a target outside ASCII": get("/é".encode()),
    "a tab before the target": b"GET\t/x HTTP/1.1\r\nHost: x\r\n\r\n",
    "a host as the target": get(b"evil:80"),
    "an asterisk as the target of GET": get(b"*"),
    "a scheme in capitals": get(b"HTTP://evil/x"),
    "a blank in the host": get(host=b"Host: a b"),
    "a list of hosts": get(host=b"Host: a, b"),
    "a host with a user": get(host=b"Host: u@x"),
    "a host with a path": get(host=b"Host: x/y"),
    "a host outside ASCII": get(host=b"Host: \xc3\xa9"),
    "a field without a colon": get(b"/x", b"foo"),
    "a field without a name": get(b"/x", b": y"),
    "an escape character in a value": get(b"/x", b"f: \x1b[0m"),
    "a version that is none": b"GET /x HTTP/11\r\nHost: x\r\n\r\n",
    "HTTP/1.2": b"GET /x HTTP/1.2\r\nHost: x\r\n\r\n",
    "a blank behind the version": b"GET /x HTTP/1.1 \r\nHost: x\r\n\r\n",
    "a method in small letters": b"get /x HTTP/1.1\r\nHost: x\r\n\r\n",
}

COMPLETIONS = (POST, b"abcde")
X = (b"GET /x", b"")

SERVED = {
    "a coding in capitals": (post(b"Transfer-Encoding: CHUNKED", body=CHUNKS), COMPLETIONS),
    "a tab before the coding": (post(b"Transfer-Encoding:\tchunked", body=CHUNKS), COMPLETIONS),
    "blanks around a length": (post(b"Content-Length:  5 "), COMPLETIONS),
    "zeros before a length": (post(b"Content-Length: 005"), COMPLETIONS),
    "zeros before a chunk size": (chunked(b"0" * 100 + b"5\r\nabcde\r\n0\r\n\r\n"), COMPLETIONS),
    "chunk extensions": (chunked(b'5;a="b";c\r\nabcde\r\n0;d=e\r\n\r\n'), COMPLETIONS),
    "trailers": (chunked(b"5\r\nabcde\r\n0\r\nHost: evil\r\nX-Epp-Target: y\r\n\r\n"), COMPLETIONS),
    "a body behind GET": (get(b"/x", b"Content-Length: 5") + b"abcde", (b"GET /x", b"abcde")),
    "chunks behind GET": (get(b"/x", b"Transfer-Encoding: chunked") + CHUNKS, (b"GET /x", b"abcde")),
    "a Connection that lists the length": (
        post(b"Content-Length: 5", b"Connection: content-length"),
        COMPLETIONS,
    ),
    "a Connection that lists the coding": (chunked(CHUNKS, b"Connection: transfer-encoding"), COMPLETIONS),
    "a Connection that lists the host": (get(b"/x", b"Connection: host, x-request-id"), X),
    "an absolute target of somebody else": (get(b"http://evil:1/x?y=z"), (b"GET /x?y=z", b"")),
    "an absolute target with a user": (get(b"http://u:p@evil/x"), X),
    "an absolute target without a path": (get(b"http://evil"), (b"GET /", b"")),
    "two slashes and a host": (get(b"//evil/x"), (b"GET //evil/x", b"")),
    "a fragment": (get(b"/x#y"), X),
    "a line break in its encoding": (get(b"/x%0d%0aA:%20b"), (b"GET /x%0d%0aA:%20b", b"")),
    "an asterisk as the target of OPTIONS": (
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        (b"OPTIONS *", b""),
    ),
    "an empty host": (get(host=b"Host:"), X),
    "a host with a port": (get(host=b"Host: [::1]:8080"), X),
    "empty lines in front": (b"\r\n\r\n" + get(), X),
    "an offer of HTTP/2": (
        get(b"/x", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAA"),
        X,
    ),
    "an offer of WebSocket with a body": (
        chunked(CHUNKS, b"Connection: Upgrade", b"Upgrade: websocket"),
        COMPLETIONS,
    ),
    "an upgrade that Connection does not list": (get(b"/x", b"Upgrade: websocket"), X),
    "a smuggled request as a body": (
        post(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED),
        (POST, SMUGGLED),
    ),
}


def in_two(wire: bytes) -> list[bytes]:
    """Cut at a place that depends on the bytes alone."""
    place = random.Random(wire).randrange(1, len(wire))
    return [wire[:place], wire[place:]]


async def innocent(f, got_before):
    """Somebody else, afterwards, gets the answer to what they asked."""
    wire = await f.exchange(b"GET /innocent HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b'{"line": "GET /innocent HTTP/1.1"}' in wire
    assert f.endpoint.got == [*got_before, (b"GET /innocent", b"")]
    assert f.endpoint.garbage == []


@pytest.mark.parametrize("wire", REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_differently_is_400_and_nothing_behind_it_is_served(open_front, wire):
    async with open_front() as f:
        for pieces in ([wire + LAST], in_two(wire + LAST)):
            assert statuses(await f.exchange(*pieces)) == [400]
            assert f.endpoint.asked == []
        await innocent(f, [])


@pytest.mark.parametrize("wire", REFUSED.values(), ids=REFUSED)
async def test_it_is_no_different_behind_an_offer_that_is_declined(open_front, wire):
    """What follows such an offer is parsed from within the handling of it."""
    offer = get(b"/x", b"Connection: Upgrade", b"Upgrade: h2c")
    async with open_front() as f:
        for pieces in ([offer + wire + LAST], in_two(offer + wire + LAST)):
            f.endpoint.asked.clear()
            assert statuses(await f.exchange(*pieces)) == [200, 400]
            assert f.endpoint.got == [X]
        await innocent(f, [X])


@pytest.mark.parametrize(
    "body", [b"5\r\nabcde\r\n0\r\nContent-Length: 9\r\n\r\n", b"0\r\n" + b"X: y\r\n" * 201 + b"\r\n"]
)
async def test_trailers_of_a_request_whose_offer_is_declined_are_judged_like_others(open_front, body):
    async with open_front() as f:
        plain = await f.exchange(chunked(body) + LAST)
        offered = await f.exchange(chunked(body, b"Connection: Upgrade", b"Upgrade: h2c") + LAST)
        assert statuses(plain) in ([400], [431])
        assert statuses(offered) == statuses(plain)
        assert f.endpoint.asked == []


@pytest.mark.parametrize(("wire", "got"), SERVED.values(), ids=SERVED)
async def test_what_is_odd_but_clear_passes_as_one_request_and_the_next_one_is_itself(open_front, wire, got):
    async with open_front() as f:
        expected = []
        for pieces in ([wire + LAST], in_two(wire + LAST)):
            assert statuses(await f.exchange(*pieces)) == [200, 200]
            expected += [got, (b"GET /last", b"")]
            assert f.endpoint.got == expected
        await innocent(f, expected)


@pytest.mark.parametrize(
    "field", [b"Transfer_Encoding: chunked", b"Content_Length: 5", b"X-Content-Length: 5"]
)
async def test_a_name_that_only_looks_like_framing_frames_nothing(open_front, field):
    """What follows the head is then the next request, and refused as such."""
    async with open_front() as f:
        assert statuses(await f.exchange(post(field, body=CHUNKS) + LAST)) == [200, 400]
        assert f.endpoint.got == [(POST, b"")]
        assert f.endpoint.asked[0].values(field.partition(b":")[0].lower()) == [field.partition(b": ")[2]]
        await innocent(f, [(POST, b"")])


async def test_a_request_without_a_body_that_expects_to_be_asked_for_it_is_answered(open_front):
    async with open_front() as f:
        wire = await f.exchange(get(b"/x", b"Expect: 100-continue") + LAST)
        assert statuses(wire) in ([100, 200, 200], [200, 200])
        assert f.endpoint.got == [X, (b"GET /last", b"")]


async def test_a_million_tiny_chunks_are_one_body(open_front):
    count = 1_000_000
    async with open_front() as f:
        wire = chunked(b"1\r\na\r\n" * count + b"0\r\n\r\n")
        assert statuses(await f.exchange(wire + LAST)) == [200, 200]
        assert f.endpoint.got == [(POST, b"a" * count), (b"GET /last", b"")]
        assert f.endpoint.asked[0].values(b"content-length") == [b"1000000"]


async def test_many_pipelined_requests_are_answered_in_order_and_none_twice(open_front):
    async with open_front(targets=100) as f:
        wire = await f.exchange(b"".join(get(b"/%d" % n) for n in range(20)) + LAST)
        assert statuses(wire) == [200] * 21
        assert f.endpoint.got == [(b"GET /%d" % n, b"") for n in range(20)] + [(b"GET /last", b"")]
