"""K01 (LR p1885): SIGTERM stopped serving at once. Five open streams, and requests that go on coming."""

import asyncio
import signal

from tests.regressions.kit import post, raw_client


async def test_readiness_fails_at_once_what_comes_is_served_and_streams_end_as_they_should(scripted, route):
    [endpoint] = await scripted()
    router = await route(endpoint, drain_timeout_s=60.0)
    await router.know("m")
    clients = [await raw_client(router) for _ in range(5)]
    calls = []
    for client in clients:
        await client.send(post(b'{"model":"m","stream":true}'))
        calls.append(await endpoint.call())
        await calls[-1].stream(b"data: 1\n\n")
        await client.read_until(b"data: 1")
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0)
    ready, alive = await router.client.get("/readyz"), await router.client.get("/healthz")
    late = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    await (await endpoint.call()).answer()
    served = await late
    for call, client in zip(calls, clients, strict=True):
        await call.events(b"data: 2\n\n")
        await call.end()
        assert (await client.read_until(b"0\r\n\r\n")).endswith(b"data: 2\n\n\r\n0\r\n\r\n")
        client.leave()
    await asyncio.wait_for(router.serving, 10)

    assert (ready.status_code, alive.status_code, served.status_code) == (503, 200, 200)
    assert ready.json()["reasons"] == ["shutting down"]
    assert served.headers["connection"] == "close"
