"""WebSockets: the handshake is scheduled, then bytes pass in both directions until one side ends."""

import asyncio
import json

import pytest

from epp.director import Target
from epp.errors import ModelNotFoundError, NoEndpointsError
from epp.http import UpstreamSettings
from epp.proxy import ProxySettings, bind_socket
from tests.proxy.harness import eventually
from tests.proxy.upstream import json_answer

HANDSHAKE = (
    b"GET /v1/realtime?model=whisper&x=%2F HTTP/1.1\r\nHost: router\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Authorization: Bearer k\r\n\r\n"
)
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nDate: yesterday\r\nServer: uvicorn\r\n\r\n"
)
MASKED = b"\x81\x82abcd\x09\x0b"
GOING_AWAY = b"\x88\x02\x03\xe9"


async def open_websocket(s, client, first=b"", early=b""):
    """A WebSocket through the router: the endpoint's connection, what it was asked, the head the client got."""
    await client.send(HANDSHAKE + early)
    endpoint = await s.upstream.accept()
    request = await endpoint.request()
    await endpoint.send(AGREED + first)
    return endpoint, request, await client.read_head()


async def test_the_handshake_passes_with_its_headers_and_the_head_is_ours_where_it_must_be(stage):
    async with stage() as s, await s.client() as client:
        endpoint, request, head = await open_websocket(s, client)

        assert request.line == b"GET /v1/realtime?model=whisper&x=%2F HTTP/1.1"
        assert request.values(b"connection") == [b"Upgrade"]
        assert request.values(b"upgrade") == [b"websocket"]
        assert request.values(b"sec-websocket-key") == [b"dGhlIHNhbXBsZSBub25jZQ=="]
        assert request.values(b"authorization") == [b"Bearer k"]
        assert request.values(b"content-length") == []
        assert head.status == 101
        assert head.value(b"sec-websocket-accept") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert (head.value(b"upgrade"), head.value(b"connection")) == (b"websocket", b"Upgrade")
        assert (head.value(b"server"), head.value(b"x-epp-endpoint")) == (b"epp", s.upstream.address.encode())
        assert head.value(b"date") != b"yesterday"
        assert head.value(b"x-request-id")
        assert ("prepare", "whisper") in s.director.calls
        endpoint.close()


async def test_bytes_pass_in_both_directions_until_the_endpoint_closes(stage):
    async with stage() as s, await s.client() as client:
        endpoint, _, _ = await open_websocket(s, client, first=b"\x81\x02hi")
        assert await client.read_exactly(4) == b"\x81\x02hi"
        await client.send(MASKED)
        assert await endpoint.reader.readexactly(8) == MASKED
        await endpoint.send(b"\x89\x01p")
        assert await client.read_exactly(3) == b"\x89\x01p"
        await client.send(b"\x8a\x81abcd\x11")
        assert await endpoint.reader.readexactly(7) == b"\x8a\x81abcd\x11"
        await endpoint.send(b"\x88\x02\x03\xe8")
        endpoint.close()
        assert await client.read_to_end() == b"\x88\x02\x03\xe8"
        ended = await s.director.ended()
        assert (ended.reason, ended.error) == ("complete", None)
        assert (ended.request_bytes, ended.response_bytes) == (15, 11)
        assert ("head", 101) in s.director.calls


async def test_what_the_client_sends_before_the_101_is_not_lost(stage):
    async with stage() as s, await s.client() as client:
        endpoint, _, _ = await open_websocket(s, client, early=MASKED)
        assert await endpoint.reader.readexactly(8) == MASKED
        endpoint.close()


async def test_the_handshake_is_understood_wherever_it_is_cut(stage):
    for cut in (1, 30, HANDSHAKE.index(b"\r\n\r\n") + 2, len(HANDSHAKE) - 1):
        async with stage() as s, await s.client() as client:
            await client.send(HANDSHAKE[:cut])
            await eventually(lambda s=s: s.door.connections and s.door.connections[0].busy)
            await client.send(HANDSHAKE[cut:])
            endpoint = await s.upstream.accept()
            await endpoint.request()
            await endpoint.send(AGREED)
            assert (await client.read_head()).status == 101
            endpoint.close()


async def test_a_client_that_leaves_closes_the_endpoints_connection(stage):
    async with stage() as s, await s.client() as client:
        endpoint, _, _ = await open_websocket(s, client)
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"
        assert s.relay.in_flight == 0


async def test_a_client_that_leaves_during_the_handshake_closes_the_endpoints_connection(stage):
    async with stage() as s, await s.client() as client:
        await client.send(HANDSHAKE)
        endpoint = await s.upstream.accept()
        await endpoint.request()
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


async def test_an_endpoint_that_breaks_off_cuts_the_client(stage):
    async with stage() as s, await s.client() as client:
        endpoint, _, _ = await open_websocket(s, client)
        endpoint.reset()
        assert await client.read_to_end() == b""
        assert (await s.director.ended()).reason == "upstream_aborted"


async def test_an_endpoint_that_declines_gives_an_ordinary_answer_and_the_connection_goes_on(stage):
    async with stage() as s, await s.client() as client:
        await client.send(HANDSHAKE)
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b'{"detail":"no"}', b"403 Forbidden"))
        response = await client.read_response()
        assert (response.status, response.body) == (403, b'{"detail":"no"}')
        s.director.targets = [s.upstream.target()]
        await client.send(b"GET /x HTTP/1.1\r\nHost: router\r\n\r\n")
        assert (await endpoint.request()).line == b"GET /x HTTP/1.1"
        await endpoint.send(json_answer(b"{}"))
        assert (await client.read_response()).status == 200


@pytest.mark.parametrize(
    "error, status", [(ModelNotFoundError("no such model"), 404), (NoEndpointsError("nobody"), 503)]
)
async def test_a_refusal_of_ours_is_an_ordinary_answer(stage, error, status):
    async with stage() as s, await s.client() as client:
        s.director.prepare_error = error
        await client.send(HANDSHAKE)
        response = await client.read_response()
        assert response.status == status
        assert json.loads(response.body)["error"]["message"] == error.message


async def test_a_refused_connection_goes_to_the_next_endpoint(stage):
    bound = bind_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    async with stage() as s, await s.client() as client:
        s.director.targets.insert(0, Target(f"127.0.0.1:{port}", "http", "127.0.0.1", port, 7))
        endpoint, _, head = await open_websocket(s, client)
        assert head.status == 101
        endpoint.close()
    bound.close()


async def test_a_silent_websocket_has_no_timeout_and_a_silent_handshake_has(stage):
    settings = UpstreamSettings(first_byte_timeout_s=0.05, idle_timeout_s=0.05, total_timeout_s=0.1)
    limits = ProxySettings(total_timeout_s=0.1, body_timeout_s=0.05, head_timeout_s=0.05)
    async with stage(limits, settings) as s, await s.client() as client, await s.client() as other:
        endpoint, _, _ = await open_websocket(s, client)
        s.director.targets = [s.upstream.target()]
        await other.send(HANDSHAKE)
        # The second one times out, after the first one would have.
        assert (await other.read_response()).status == 504
        await endpoint.send(b"\x81\x02hi")
        assert await client.read_exactly(4) == b"\x81\x02hi"
        endpoint.close()


async def test_an_endpoint_that_takes_nothing_stops_the_client_and_the_other_way_round(stage):
    async with stage() as s, await s.client(receive_buffer=4096) as client:
        endpoint, _, _ = await open_websocket(s, client)
        size = 16 * 1024 * 1024
        sending = asyncio.create_task(
            client.send(b"\x82\xff" + size.to_bytes(8, "big") + b"mask" + b"a" * size)
        )
        [connection] = s.door.connections
        await eventually(lambda: connection.flow.read_paused)
        received = 0
        while received < size + 14:
            received += len(await endpoint.reader.read(1 << 20))
        await sending

        [request] = s.relay._active
        answer = request._executions._current
        pushing = asyncio.create_task(endpoint.send(b"\x82\x7f" + size.to_bytes(8, "big") + b"b" * size))
        await eventually(lambda: answer._paused)
        assert not pushing.done()
        received = 0
        while received < size + 10:
            received += len(await client.reader.read(1 << 20))
        await pushing
        endpoint.close()


async def test_a_client_that_takes_nothing_for_too_long_is_cut(stage):
    async with stage(ProxySettings(client_stall_timeout_s=0.1)) as s:
        client = await s.client(receive_buffer=4096)
        endpoint, _, _ = await open_websocket(s, client)
        size = 16 * 1024 * 1024
        pushing = asyncio.create_task(endpoint.send(b"\x82\x7f" + size.to_bytes(8, "big") + b"b" * size))
        assert (await s.director.ended()).reason == "timeout"
        pushing.cancel()
        client.leave()


async def test_the_end_of_a_drain_says_1001_between_two_frames(stage):
    async with stage(ProxySettings(drain_timeout_s=0.4)) as s, await s.client() as client:
        endpoint, _, _ = await open_websocket(s, client, first=b"\x81\x02hi")
        assert await client.read_exactly(4) == b"\x81\x02hi"
        s.door.server.begin_drain()
        await endpoint.send(b"\x81\x02yo")
        assert await client.read_exactly(4) == b"\x81\x02yo"
        assert await client.read_to_end() == GOING_AWAY
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "shutdown"


async def test_a_frame_that_is_under_way_at_the_end_of_a_drain_is_finished_first(stage):
    async with stage() as s, await s.client() as client:
        endpoint, _, _ = await open_websocket(s, client, first=b"\x81\x04hi")
        assert await client.read_exactly(4) == b"\x81\x04hi"
        s.relay.shut_down()
        await endpoint.send(b"yo\x81\x04late")
        assert await client.read_to_end() == b"yo" + GOING_AWAY
        assert (await s.director.ended()).reason == "shutdown"


async def test_a_handshake_that_is_under_way_at_the_end_of_a_drain_gets_503(stage):
    async with stage() as s, await s.client() as client:
        await client.send(HANDSHAKE)
        endpoint = await s.upstream.accept()
        await endpoint.request()
        s.relay.shut_down()
        assert (await client.read_response()).status == 503


async def test_websockets_elsewhere_are_relayed_without_a_model(stage):
    async with stage() as s, await s.client() as client:
        await client.send(HANDSHAKE.replace(b"/v1/realtime?model=whisper", b"/v1/other?model=whisper"))
        endpoint = await s.upstream.accept()
        assert (await endpoint.request()).line == b"GET /v1/other?model=whisper&x=%2F HTTP/1.1"
        assert ("prepare", None) in s.director.calls
        await endpoint.send(AGREED)
        assert (await client.read_head()).status == 101
        endpoint.close()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/x HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /v1/x HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /v1/x HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /v1/x HTTP/1.0\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
async def test_any_other_offer_is_declined_and_served_as_it_is(stage, head):
    async with stage() as s, await s.client() as client:
        await client.send(head)
        endpoint = await s.upstream.accept()
        request = await endpoint.request()
        assert request.values(b"upgrade") == []
        assert request.body == (b"{}" if b"{}" in head else b"")
        await endpoint.send(json_answer(b"{}"))
        assert (await client.read_response()).status == 200
