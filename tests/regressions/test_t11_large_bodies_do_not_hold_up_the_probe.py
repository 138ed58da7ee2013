"""T11: while large bodies were routed, the probe waited for seconds; and `Expect` hung.

How long it waits is measured by bench/health_latency.py.
"""

import asyncio

import pytest

from tests.regressions.kit import raw_client

MIB = 1 << 20


def head(size, extra=b""):
    return (
        b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n"
        % (extra, size)
    )


def body(size):
    return b'{"model":"m","prompt":"%b"}' % (b"a" * (size - 25))


@pytest.mark.parametrize("size", [1 * MIB, 4 * MIB, 16 * MIB])
@pytest.mark.parametrize("expects", [False, True])
async def test_a_large_body_is_served_and_the_probe_meanwhile(stage, size, expects):
    endpoint, router = stage
    async with await raw_client(router) as client:
        await client.send(head(size, b"Expect: 100-continue\r\n" if expects else b""))
        if expects:
            assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sending = asyncio.create_task(client.send(body(size)))
        reading = asyncio.create_task(client.read_response())
        probes = 0
        while not reading.done():
            assert (await router.client.get("/healthz")).status_code == 200
            probes += 1
        await sending
    [asked] = endpoint.relayed()

    assert (await reading).status == 200
    assert len(asked.body) == size
    assert probes > 0


async def test_above_the_documented_limit_it_is_413_without_a_100(stage):
    endpoint, router = stage
    async with await raw_client(router) as client:
        await client.send(head(64 * MIB + 1, b"Expect: 100-continue\r\n"))
        response = await client.read_response()

    assert response.status == 413
    assert endpoint.relayed() == []
