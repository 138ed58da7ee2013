"""B11 (SG p39463): after 200 the worker died, and the end looked clean. B12 (DY p475): tokens were sent twice."""

import pytest

from epp.config.settings import StreamSettings
from tests.proxy.upstream import SSE_HEAD, chunk
from tests.regressions.kit import first_call, post, raw_client

EVENTS = (b"data: 1\n\n", b"data: 2\n\n")
SHORT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 40\r\n\r\n"


async def test_b11_a_reset_after_two_events_has_no_clean_end(theatre):
    endpoint, router = theatre
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        await call.stream(*EVENTS)
        await client.read_until(EVENTS[1])
        call.reset()
        rest = await client.read_to_end()
    [decision] = await router.decisions(1)

    assert rest == b"\r\n"
    assert decision["reason"] == "upstream_aborted"
    assert await router.sample("epp_requests_total", reason="upstream_aborted") == 1


@pytest.mark.parametrize(
    "pieces", [(SHORT, b"{"), (SSE_HEAD, chunk(EVENTS[0]), b"ff\r\ncut")], ids=["length", "chunk"]
)
async def test_b11_a_body_that_ends_early_has_no_clean_end(theatre, pieces):
    endpoint, router = theatre
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        await call.send(*pieces)
        call.close()
        got = await client.read_to_end()
    [decision] = await router.decisions(1)

    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not got.endswith(b"0\r\n\r\n")
    assert decision["reason"] == "upstream_aborted"


async def test_b11_with_the_setting_one_error_event_precedes_the_cut(scripted, route):
    [endpoint] = await scripted()
    router = await route(endpoint, stream=StreamSettings(error_event=True))
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        await call.stream(EVENTS[0])
        await client.read_until(EVENTS[0])
        call.reset()
        rest = await client.read_to_end()

    assert b"event: error\ndata: {" in rest
    assert rest.count(b"event:") == 1
    assert not rest.endswith(b"0\r\n\r\n")
    assert b"[DONE]" not in rest


async def test_b12_after_the_first_byte_nothing_is_sent_again(scripted, route):
    endpoints = await scripted(2)
    router = await route(*endpoints)
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call, [other] = await first_call(endpoints)
        await call.stream(*EVENTS)
        await client.read_until(EVENTS[1])
        call.reset()
        await client.read_to_end()
    await router.decisions(1)

    assert other.relayed() == []


async def test_b12_before_it_a_broken_connection_goes_to_the_other_endpoint_once(scripted, route):
    endpoints = await scripted(2)
    router = await route(*endpoints)
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call, [other] = await first_call(endpoints)
        call.reset()
        second = await other.call()
        await second.stream(*EVENTS)
        await second.end()
        answer = await client.read_response()
    [decision] = await router.decisions(1)

    assert (answer.status, answer.body) == (200, b"".join(EVENTS))
    assert answer.value(b"x-epp-endpoint") == other.address.encode()
    assert (decision["attempts"], decision["retries"]) == (2, ["broken"])
