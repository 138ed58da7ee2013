"""B13 (GIE p2652, AG p2513): a response was counted twice, the router's own as an endpoint's. I07 (AX i2440): counters drift.

A thousand requests of every ending leave every count of running work at zero, and are recorded once each.
"""

import asyncio
from collections import Counter

import pytest

from epp.compose import CoreOptions
from epp.director.director import Limits
from epp.director.types import EndReason, Failure, FailureKind
from epp.errors import EppError, UpstreamConnectError
from epp.flow.admission import Objective
from tests.director.core import Pool
from tests.e2e.kit import eventually
from tests.regressions.kit import in_flight, post, raw_client


def complete(pool, exchange, now):
    pool.answer(exchange, now=now)


def refused(pool, exchange, now):
    pool.director.on_response_head(exchange, 422, now)
    pool.director.on_end(exchange, EndReason.COMPLETE, now)


def broken_off(pool, exchange, now):
    pool.director.on_response_head(exchange, 200, now)
    pool.director.on_first_byte(exchange, now)
    pool.director.on_end(exchange, EndReason.UPSTREAM_ABORTED, now)


def left_before_the_head(pool, exchange, now):
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, now)


def left_in_the_stream(pool, exchange, now):
    pool.director.on_response_head(exchange, 200, now)
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, now)
    pool.director.on_end(exchange, EndReason.COMPLETE, now)


def repeated(pool, exchange, now):
    if pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), now):
        pool.answer(exchange, now=now)
    else:  # the others are at their limits
        pool.director.on_end(exchange, EndReason.REJECTED, now, error=UpstreamConnectError("refused"))


def test_a_thousand_requests_of_every_ending_leave_nothing():
    pool = Pool(
        n=4,
        options=CoreOptions(
            seed=7,
            timer=lambda: 0.0,
            limits=Limits(inflight_per_endpoint=30),
            objectives=(Objective("b", -1),),
        ),
    )
    endings = [complete, refused, broken_off, left_before_the_head, left_in_the_stream, repeated]
    waiting, least = [], 0
    for number in range(1000):
        now = float(number)
        exchange = pool.open({"model": "m", "prompt": f"{number % 50} " * 100}, now=now)
        try:
            pool.director.pick(exchange, now)
        except EppError as error:
            pool.director.on_end(exchange, EndReason.REJECTED, now, error=error)
            for _ in range(60):
                old, ending = waiting.pop(0)
                ending(pool, old, now)
        else:
            waiting.append((exchange, endings[number % 6]))
        least = min(least, *pool.ledger.requests[:4], *pool.ledger.tokens[:4])
    for old, ending in waiting:
        ending(pool, old, 1001.0)

    assert least == 0
    assert list(pool.ledger.requests[:4]) == list(pool.ledger.tokens[:4]) == [0, 0, 0, 0]
    assert pool.director.running.counts() == {}
    assert len(pool.records) == 1000
    assert Counter(record.reason for record in pool.records)[EndReason.REJECTED] > 0
    pool.index.check_integrity()


async def test_own_refusals_and_relayed_answers_are_one_record_each(scripted, route):
    [endpoint] = await scripted()
    router = await route(endpoint, max_requests=1)
    await router.know("m")
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m"}'))
        call = await endpoint.call()
        refused = await router.client.post("/v1/completions", json={"model": "m"})
        await call.answer()
        relayed = await client.read_response()
    decisions = await router.decisions(2)

    assert (refused.status_code, relayed.status) == (503, 200)
    assert refused.headers["x-llm-d-request-dropped-reason"] == "rejected-router-overloaded"
    assert sorted((d["reason"], d["status"]) for d in decisions) == [("complete", 200), ("rejected", 503)]
    assert await router.sample("epp_requests_total") == 2
    assert await router.sample("llm_d_epp_response_size_bytes_count") == 1


UPGRADE = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
UPLOAD = b"POST /v1/files HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"


async def nothing_in_flight(router):
    return await in_flight(router) == 0 and await router.sample("epp_endpoint_inflight_requests") == 0


@pytest.mark.parametrize("leaves", ["client", "endpoint"])
async def test_a_websocket_and_an_upload_are_counted_to_their_end_whoever_ends_them(scripted, route, leaves):
    [endpoint] = await scripted(reads_bodies=False)
    router = await route(endpoint)
    await router.know("m")
    ends = []
    for start in (UPGRADE, UPLOAD):
        client = await raw_client(router)
        await client.send(start)
        call = await endpoint.call()
        if start is UPGRADE:
            await call.send(SWITCH)
            await client.read_until(b"\r\n\r\n")
        assert await in_flight(router) == 1
        if leaves == "client":
            client.leave()
            await call.closed_by_router()
        else:
            call.reset()
            await client.read_to_end()
            client.leave()
        await eventually(lambda: nothing_in_flight(router))
        [decision] = await router.decisions(1)
        ends.append(decision["reason"])

    assert (
        ends
        == {
            "client": ["client_disconnected", "client_disconnected"],
            "endpoint": ["upstream_aborted", "rejected"],
        }[leaves]
    )


async def test_every_phase_in_which_a_client_may_leave_ends_at_zero(theatre):
    endpoint, router = theatre
    body = b'{"model":"m","stream":true}'
    for sent in (1, 20, len(post(body)) - 5):
        client = await raw_client(router)
        await client.send(post(body)[:sent])
        client.leave()
    for events in (0, 1):
        client = await raw_client(router)
        await client.send(post(body))
        call = await endpoint.call()
        if events:
            await call.stream(b"data: 1\n\n")
            await client.read_until(b"data: 1")
        client.leave()
        await call.closed_by_router()
    for fault in ("reset", "close"):
        asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
        getattr(await endpoint.call(), fault)()
        assert (await asking).status_code == 502

    await eventually(lambda: nothing_in_flight(router))
    assert await router.sample("epp_endpoint_inflight_uncached_tokens") == 0
    assert await router.sample("llm_d_epp_request_running") == 0
