"""Limits on bodies and on time."""

import json

import pytest

from epp.errors import OverloadedError
from epp.http import UpstreamSettings
from epp.proxy import ProxySettings
from epp.proxy.intake import BodyBudget, BodyHold
from tests.proxy.harness import eventually, post
from tests.proxy.upstream import SSE_HEAD, chunk, json_answer


@pytest.mark.parametrize("size", [0, 1, 32_768, 32_769, 131_073, 1_048_576, 16_777_216])
async def test_a_body_of_any_size_is_relayed_unchanged(stage, size):
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with stage() as s, await s.client() as client:
        await client.send(post(body))
        endpoint = await s.upstream.accept()
        assert (await endpoint.request()).body == body
        await endpoint.send(json_answer(b"{}"))
        assert (await client.read_response()).status == 200
        assert s.relay.buffered_bytes == 0


async def test_an_announced_body_over_the_limit_is_413_before_it_is_sent(stage):
    async with stage(ProxySettings(max_request_bytes=10)) as s, await s.client() as client:
        await client.send(post(b"x" * 11)[:-11])
        response = await client.read_response()
        assert response.status == 413
        assert response.value(b"connection") == b"close"
        assert json.loads(response.body)["error"]["code"] == "payload_too_large"
        assert await client.read_to_end() == b""
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 413)
        assert [name for name, _ in s.director.calls] == ["open", "end"]


async def test_an_expected_100_continue_does_not_come_for_a_body_over_the_limit(stage):
    async with stage(ProxySettings(max_request_bytes=10)) as s, await s.client() as client:
        await client.send(post(b"x" * 11, extra=b"Expect: 100-continue\r\n")[:-11])
        assert (await client.read_response()).status == 413


async def test_a_chunked_body_over_the_limit_is_413(stage):
    async with stage(ProxySettings(max_request_bytes=10)) as s, await s.client() as client:
        await client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.send(chunk(b"x" * 6))
        await client.send(chunk(b"x" * 5))
        assert (await client.read_response()).status == 413
        assert await client.read_to_end() == b""


async def test_a_body_at_the_limit_is_relayed(stage):
    async with stage(ProxySettings(max_request_bytes=10)) as s, await s.client() as client:
        await client.send(post(b"x" * 10))
        assert (await (await s.upstream.accept()).request()).body == b"x" * 10


async def test_more_buffered_bytes_than_the_limit_are_503_until_a_body_is_released(stage):
    async with stage(ProxySettings(max_buffered_bytes=100)) as s:
        s.director.targets += [s.upstream.target()] * 2
        async with await s.client() as first, await s.client() as second:
            await first.send(post(b"x" * 60))
            held_by = await s.upstream.accept()
            await held_by.request()
            assert s.relay.buffered_bytes == 60
            await second.send(post(b"x" * 60))
            response = await second.read_response()
            assert response.status == 503
            assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-router-overloaded"
            await held_by.send(SSE_HEAD + chunk(b"data: 1\n\n"))
            await first.read_head()
            assert s.relay.buffered_bytes == 0
            async with await s.client() as third:
                await third.send(post(b"x" * 60))
                assert len((await (await s.upstream.accept()).request()).body) == 60


async def test_an_announcement_alone_takes_nothing_from_the_budget(stage):
    async with stage(ProxySettings(max_buffered_bytes=100)) as s, await s.client() as client:
        await client.send(post(b"x" * 90)[:-90])
        await eventually(lambda: s.director.heads)
        assert s.relay.buffered_bytes == 0


async def test_more_requests_than_the_limit_are_503(stage):
    async with (
        stage(ProxySettings(max_requests=1)) as s,
        await s.client() as first,
        await s.client() as second,
    ):
        await first.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await second.send(post())
        response = await second.read_response()
        assert response.status == 503
        assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-router-overloaded"
        assert (await s.director.ended()).reason == "rejected"
        await endpoint.send(json_answer(b"{}"))
        assert (await first.read_response()).status == 200


def test_a_hold_gives_back_what_it_took_once():
    budget = BodyBudget(10)
    one, other = BodyHold(budget), BodyHold(budget)
    one.take(6)
    with pytest.raises(OverloadedError):
        other.take(5)
    other.take(4)
    one.release()
    one.release()
    assert budget.held_bytes == 4
    other.release()
    assert budget.held_bytes == 0


async def test_a_slow_body_is_408(stage):
    async with stage(ProxySettings(body_timeout_s=0.05)) as s, await s.client() as client:
        await client.send(post(b"x" * 10)[:-5])
        response = await client.read_response()
        assert response.status == 408
        assert response.value(b"connection") == b"close"
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("timeout", 408)


async def test_the_total_timeout_is_504_while_nothing_was_sent_and_the_body_timeout_ended_with_the_body(
    stage,
):
    settings = ProxySettings(body_timeout_s=0.02, total_timeout_s=0.1)
    async with stage(settings) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        assert (await client.read_response()).status == 504
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "timeout"


async def test_the_total_timeout_cuts_an_answer_that_has_begun(stage):
    async with stage(ProxySettings(total_timeout_s=0.2)) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        assert (await client.read_to_end()).endswith(b"9\r\ndata: 1\n\n\r\n")
        await endpoint.closed_by_router()
        ended = await s.director.ended()
        assert (ended.reason, ended.error) == ("timeout", None)


async def test_an_idle_stream_is_cut_at_the_idle_timeout(stage):
    settings = UpstreamSettings(idle_timeout_s=0.05)
    async with stage(upstream_settings=settings) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        assert (await client.read_to_end()).endswith(b"9\r\ndata: 1\n\n\r\n")
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "timeout"


async def test_a_client_that_does_not_take_the_end_of_its_answer_is_cut(stage):
    settings = ProxySettings(client_stall_timeout_s=0.05)
    async with stage(settings) as s, await s.client(receive_buffer=4096) as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        endpoint.writer.write(json_answer(b"x" * 8_000_000))
        ended = await s.director.ended()
        assert (ended.reason, ended.error) == ("timeout", None)
        assert s.relay.in_flight == 0


async def test_a_client_that_takes_neither_its_answer_nor_an_error_is_cut(stage):
    settings = ProxySettings(client_stall_timeout_s=0.05, max_requests=1)
    async with stage(settings) as s, await s.client(receive_buffer=4096) as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        [connection] = s.door.connections
        connection.flow.pause_writing()
        await endpoint.send(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 5\r\n\r\nab")
        endpoint.close()
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 502)
        await eventually(lambda: not s.door.connections)


async def test_a_client_that_leaves_a_full_buffer_untouched_is_cut(stage):
    async with (
        stage(ProxySettings(client_stall_timeout_s=0.05)) as s,
        await s.client(receive_buffer=4096) as client,
    ):
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        endpoint.writer.write(SSE_HEAD + chunk(b"x" * 20_000_000))
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "timeout"
