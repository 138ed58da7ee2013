"""Headers that belong to one hop were copied to the next.

C01 (SG p27523): content-length of another body. C02 (GIE i2993): transfer-encoding. C03 (AG i2391): content-length of a
stream. C04 (PS p998): two `server`, two `date`.
"""

import gzip

from tests.proxy.upstream import json_answer
from tests.regressions.kit import post, raw_client


async def answered(endpoint, router, *pieces, request=None):
    async with await raw_client(router) as client:
        await client.send(request or post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        await call.send(*pieces)
        call.over.set()
        return await client.read_response()


async def test_c01_the_length_is_that_of_the_body_that_is_sent(theatre):
    endpoint, router = theatre
    error = await answered(endpoint, router, json_answer(b'{"error":"x"}', b"400 Bad Request"))
    coded = gzip.compress(b"{}" * 100, mtime=0)
    packed = await answered(endpoint, router, json_answer(coded, extra=b"content-encoding: gzip\r\n"))

    assert (error.status, error.body, error.value(b"content-length")) == (400, b'{"error":"x"}', b"13")
    assert (packed.body, packed.value(b"content-length")) == (coded, b"%d" % len(coded))


async def test_c01_an_error_of_our_own_has_its_own_length(theatre):
    _, router = theatre
    async with await raw_client(router) as client:
        await client.send(post(b"{"))
        response = await client.read_response()

    assert response.status == 400
    assert response.value(b"content-length") == b"%d" % len(response.body)


async def test_c02_the_transfer_coding_of_the_endpoint_stays_on_its_hop(theatre):
    endpoint, router = theatre
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\ntrailer: x\r\n\r\n"
    response = await answered(endpoint, router, head, b"9\r\ndata: 1\n\n\r\n0\r\nx: 1\r\n\r\n")

    assert response.values(b"transfer-encoding") == [b"chunked"]
    assert response.values(b"trailer") == response.values(b"content-length") == []
    assert response.body == b"data: 1\n\n"


async def test_c03_a_stream_with_a_length_arrives_whole(theatre):
    endpoint, router = theatre
    body = b"data: 1\n\ndata: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    response = await answered(endpoint, router, head, body[:4], body[4:])

    assert response.body == body


async def test_c04_there_is_one_server_and_one_date(theatre):
    endpoint, router = theatre
    extra = b"server: uvicorn\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    response = await answered(endpoint, router, json_answer(b"{}", extra=extra))

    assert [response.values(b"server"), len(response.values(b"date"))] == [[b"epp"], 1]
    assert response.value(b"date") != b"Mon, 01 Jan 2024 00:00:00 GMT"
