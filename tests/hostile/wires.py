"""Requests that are broken at random, as bytes: what a parser is least ready for stands in no list."""

import random

__all__ = ["LAST", "broken_wire"]

LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

_WHOLE = (
    b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n{"a":"bcd"}',
    (
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nabcde\r\n3;x=y\r\nfgh\r\n0\r\nX-T: 1\r\n\r\n"
    ),
    b"GET /x?y=z HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
    (
        b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        b"4\r\nabcd\r\n0\r\n\r\n"
    ),
    b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
)
_PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b"\x0b", b":", b",", b";", b"0", b"+", b"-", b"_", b"\xff",
    b"chunked", b"identity", b"HTTP/1.0", b"ffffffffffffffff", b"\r\n ", b"0\r\n\r\n", b"1\r\na\r\n",
    b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n", b"Connection: close\r\n", b"Connection: content-length\r\n",
    b"Host: y\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
)  # fmt: skip


def broken_wire(chosen: random.Random) -> bytes:
    """One request or two, broken, and a last one that is whole."""
    count = 2 if chosen.random() < 0.3 else 1
    return b"".join(_broken(chosen.choice(_WHOLE), chosen) for _ in range(count)) + LAST


def _broken(wire: bytes, chosen: random.Random) -> bytes:
    for _ in range(chosen.choice((1, 1, 2, 3, 5))):
        here, there = sorted((chosen.randrange(len(wire) + 1), chosen.randrange(len(wire) + 1)))
        wire = chosen.choice(
            (
                wire[:here] + chosen.choice(_PIECES) + wire[here:],
                wire[:here] + chosen.choice(_PIECES) + wire[here:],
                wire[:here] + wire[here + chosen.randrange(1, 6) :],
                wire[:here] + chosen.randbytes(1) + wire[here + 1 :],
                wire[:here] + wire[here:there] * 2 + wire[there:],
            )
        )
    return wire
