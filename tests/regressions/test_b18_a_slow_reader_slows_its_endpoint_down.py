"""B18 (smg p2097): for a client that did not read, the gateway held the whole answer."""

import asyncio

from tests.regressions.kit import post, raw_client

TOTAL = 32 << 20
PIECE = bytes(1 << 16)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: %d\r\n\r\n" % TOTAL


async def test_the_endpoint_waits_for_a_client_that_does_not_read(theatre):
    endpoint, router = theatre
    client = await raw_client(router, receive_buffer=4096)
    client.reader._limit = 1024  # the client's own buffer must not take it either
    await client.send(post(b'{"model":"m"}'))
    call = await endpoint.call()
    sent = 0

    async def send_all():
        nonlocal sent
        await call.send(HEAD)
        while sent < TOTAL:
            await call.send(PIECE)
            sent += len(PIECE)

    sending = asyncio.create_task(send_all())
    stood_still = -1
    while stood_still != sent:
        stood_still = sent
        for _ in range(200):
            await router.client.get("/healthz") if sent == stood_still and _ == 0 else await asyncio.sleep(0)

    assert not sending.done()
    assert 0 < sent < 12 << 20  # what the sockets of this machine hold, and a few hundred KiB of ours
    sending.cancel()
    client.leave()
    await call.closed_by_router()
