"""B20 (PS i448): proxies in front speak HTTP/1.0."""

import pytest

from tests.regressions.kit import raw_client

BODY = b'{"model":"m","stream":true}'
POST = b"POST /v1/completions HTTP/1.0\r\n%bContent-Length: %d\r\n\r\n%b"


@pytest.mark.parametrize("extra", [b"", b"Connection: keep-alive\r\n"])
async def test_a_stream_comes_without_chunks_piece_by_piece_and_ends_with_the_connection(theatre, extra):
    endpoint, router = theatre
    async with await raw_client(router) as client:
        await client.send(POST % (extra, len(BODY), BODY))
        call = await endpoint.call()
        await call.stream(b"data: 1\n\n")
        head = await client.read_until(b"\r\n\r\n")
        first = await client.read_exactly(9)
        await call.events(b"data: 2\n\n")
        second = await client.read_exactly(9)
        await call.end()
        rest = await client.read_to_end()

    assert b"transfer-encoding" not in head.lower()
    assert (first, second, rest) == (b"data: 1\n\n", b"data: 2\n\n", b"")


async def test_an_answer_of_known_length_is_whole(theatre):
    endpoint, router = theatre
    async with await raw_client(router) as client:
        await client.send(POST % (b"", len(BODY), BODY))
        await (await endpoint.call()).answer(b'{"a":1}')
        whole = await client.read_to_end()

    assert whole.startswith(b"HTTP/1.")
    assert b"content-length: 7\r\n" in whole
    assert whole.endswith(b'\r\n\r\n{"a":1}')
