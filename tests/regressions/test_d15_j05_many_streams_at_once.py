"""D15 (SG i13894): 503 for many while the workers lived, from a pool of 100. J05 (PS i448): dead above 1,000 users."""

import asyncio
import resource

from epp.app.open_files import open_files_limit, raise_open_files_limit
from epp.config.settings import UpstreamSettings
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk
from tests.regressions.kit import in_flight, post, raw_client

STREAMS = 300
REASON = "x-llm-d-request-dropped-reason"


async def test_d15_three_hundred_streams_over_two_endpoints_are_all_served_at_once(scripted, route):
    endpoints = await scripted(2)
    router = await route(*endpoints)
    await router.know("m")
    clients = [await raw_client(router) for _ in range(STREAMS)]
    for client in clients:
        await client.send(post(b'{"model":"m","stream":true}'))
    calls = []
    while len(calls) < STREAMS:
        for endpoint in endpoints:
            while endpoint.waiting:
                calls.append(await endpoint.call())
        await asyncio.sleep(0)
    for call in calls:
        await call.send(SSE_HEAD, chunk(b"data: 1\n\n"))
    for client in clients:
        await client.read_until(b"data: 1")
    open_at_once = await in_flight(router)
    for call in calls:
        await call.send(LAST_CHUNK)
        call.over.set()
    for client in clients:
        assert await client.read_until(LAST_CHUNK)
        client.leave()

    assert open_at_once == STREAMS
    assert await router.sample("epp_requests_total", reason="complete", status="200") == STREAMS


async def test_d15_our_own_limit_of_connections_is_503_and_no_mark_against_the_endpoint(scripted, route):
    [endpoint] = await scripted()
    router = await route(endpoint, upstream=UpstreamSettings(max_connections_per_endpoint=1))
    await router.know("m")
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    call = await endpoint.call()
    refused = [await router.client.post("/v1/completions", json={"model": "m"}) for _ in range(5)]
    await call.answer()

    assert (await asking).status_code == 200
    assert {(answer.status_code, answer.headers[REASON]) for answer in refused} == {
        (503, "rejected-router-overloaded")
    }
    assert await router.sample("epp_ejections_total") == 0
    assert await router.sample("epp_endpoint_ready") == 1


async def test_j05_above_the_limit_of_requests_it_is_503_and_below_it_goes_on(scripted, route):
    [endpoint] = await scripted()
    router = await route(endpoint, max_requests=2)
    await router.know("m")
    asking = [
        asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"})) for _ in range(2)
    ]
    calls = [await endpoint.call() for _ in asking]
    refused = await router.client.post("/v1/completions", json={"model": "m"})
    for call in calls:
        await call.answer()
    await asyncio.gather(*asking)
    later = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    await (await endpoint.call()).answer()

    assert (refused.status_code, refused.headers[REASON]) == (503, "rejected-router-overloaded")
    assert refused.headers["retry-after"] == "1"
    assert (await later).status_code == 200


def test_j05_the_usual_soft_limit_of_1024_open_files_is_raised():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        raise_open_files_limit()
        raised = open_files_limit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert raised == hard or raised > 1024
