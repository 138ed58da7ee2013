"""What the fast lane takes, what it leaves to ASGI, and what is its own."""

import asyncio
import os
import socket

import pytest

from epp.proxy import FastLane, ProxySettings
from epp.proxy.fast_executions import FastExecutions
from epp.proxy.fast_request import FastRequest
from epp.proxy.relayed import RelayedRequest
from epp.proxy.writer import AnswerWriter
from tests.proxy.conftest import new_stage
from tests.proxy.harness import Door, eventually, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer

OK = json_answer(b"{}")


async def lane_of(request):
    """The kind of what serves a request."""
    async with new_stage(lane="fast") as s, await s.client() as client:
        await client.send(request)
        await s.upstream.accept()
        [active] = s.relay._active
        return type(active)


async def test_inference_takes_the_fast_lane():
    assert await lane_of(post()) is FastRequest
    assert await lane_of(post(path=b"/v1/embeddings")) is FastRequest


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(path=b"/invocations"),
        b"GET /v1/models/x HTTP/1.1\r\nHost: r\r\n\r\n",
        post().replace(b"HTTP/1.1", b"HTTP/1.0"),
        (
            b"GET /v1/realtime HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ),
    ],
    ids=["a route without prompts", "GET", "HTTP/1.0", "WebSocket"],
)
async def test_other_requests_go_through_asgi(request_bytes):
    assert issubclass(await lane_of(request_bytes), RelayedRequest)


async def test_a_client_that_waits_for_100_continue_gets_it():
    async with new_stage(lane="fast") as s, await s.client() as client:
        head, body = post(extra=b"Expect: 100-continue\r\n").split(b"\r\n\r\n", 1)
        await client.send(head + b"\r\n\r\n")
        assert (await client.read_head()).status == 100
        await client.send(body)
        endpoint = await s.upstream.accept()
        assert (await endpoint.request()).body == body
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200


async def test_a_path_that_is_not_relayed_is_the_applications():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 418, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with new_stage() as s:
        lane = FastLane(s.relay, lambda path: path != "/v1/completions")
        async with Door(app, lane=lane) as door, await door.client() as client:
            await client.send(post(path=b"/v1/completions"))
            assert (await client.read_response()).status == 418


async def test_pipelined_requests_are_answered_in_their_order():
    async with new_stage(lane="fast") as s, await s.client() as client:
        s.director.targets += [s.upstream.target()] * 2
        await client.send(post(b"1") + post(b"2") + post(b"3"))
        endpoint = await s.upstream.accept()
        for body in (b"1", b"2", b"3"):
            assert (await endpoint.request()).body == body
            await endpoint.send(json_answer(body))
        assert [(await client.read_response()).body for _ in range(3)] == [b"1", b"2", b"3"]


async def test_nothing_is_sent_on_behind_a_refusal():
    async with new_stage(ProxySettings(max_request_bytes=3), lane="fast") as s, await s.client() as client:
        await client.send(post(b"4444") + post(b"1"))
        assert (await client.read_response()).status == 413
        assert await client.read_to_end() == b""
        assert s.upstream.accepted == 0


async def test_a_connection_serves_both_lanes_in_turn():
    async with new_stage(lane="fast") as s, await s.client() as client:
        s.director.targets += [s.upstream.target()] * 3
        endpoint = None
        for path in (b"/v1/completions", b"/invocations", b"/v1/completions", b"/invocations"):
            await client.send(post(path=path))
            endpoint = endpoint or await s.upstream.accept()
            await endpoint.request()
            await endpoint.send(OK)
            assert (await client.read_response()).status == 200


async def test_an_upgrade_offered_after_a_fast_request_is_declined():
    async with new_stage(lane="fast") as s, await s.client() as client:
        s.director.targets.append(s.upstream.target())
        await client.send(post(b"1"))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(OK)
        await client.read_response()
        await client.send(post(b"2", extra=b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"))
        assert (await endpoint.request()).body == b"2"
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200


async def test_an_idle_connection_keeps_nothing_of_its_last_request():
    async with new_stage(lane="fast") as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(OK)
        await client.read_response()
        [connection] = s.door.connections
        assert (connection.cycle, connection._serving) == (None, None)


async def test_a_long_answer_does_not_hold_the_body_of_its_request():
    async with new_stage(lane="fast") as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        [request] = s.relay._active
        assert request._executions._request is not None
        await endpoint.send(SSE_HEAD + chunk(b"1"))
        await client.read_head()
        assert request._executions._request is None


async def test_an_answer_waits_for_a_client_that_still_has_the_last_one_to_read():
    async with new_stage(lane="fast") as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        [connection] = s.door.connections
        connection.flow.pause_writing()
        await endpoint.send(SSE_HEAD + chunk(b"1"))
        await client.read_head()
        [request] = s.relay._active
        assert request._executions._upstream.connection._paused
        connection.resume_writing()
        await endpoint.send(LAST_CHUNK)
        assert (await s.director.ended()).reason == "complete"


async def test_a_fault_in_the_choice_of_the_next_endpoint_is_500(monkeypatch):
    def broken(*_arguments):
        raise RuntimeError("bug")

    async with new_stage(lane="fast") as s, await s.client() as client:
        monkeypatch.setattr(s.director, "next_after_failure", broken)
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        endpoint.close()
        assert (await client.read_response()).status == 500
        assert (await s.director.ended()).error.status == 500


async def test_a_fault_before_the_answer_is_500(monkeypatch):
    def broken(*_arguments):
        raise RuntimeError("bug")

    async with new_stage(lane="fast") as s, await s.client() as client:
        monkeypatch.setattr(s.director, "on_response_head", broken)
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(OK)
        assert (await client.read_response()).status == 500


async def test_a_client_that_leaves_while_its_prompt_is_hashed_is_forgotten():
    async with new_stage(lane="fast") as s, await s.client() as client:
        s.director.yields = 1_000_000
        await client.send(post())
        await eventually(lambda: s.relay.in_flight == 1)
        client.leave()
        assert (await s.director.ended()).reason == "client_disconnected"
        assert s.relay.in_flight == 0
        assert s.upstream.accepted == 0


async def test_a_request_that_ends_before_its_turn_to_be_sent_is_not_sent(monkeypatch):
    async with new_stage(lane="fast") as s, await s.client() as client:
        prepared = s.director.prepare

        def prepare(*arguments, **named):
            yield from prepared(*arguments, **named)
            asyncio.get_running_loop().call_soon(s.relay.shut_down)

        monkeypatch.setattr(s.director, "prepare", prepare)
        await client.send(post())
        assert (await client.read_response()).status == 503
        assert (await s.director.ended()).reason == "shutdown"
        assert s.upstream.accepted == 0


async def test_the_total_time_of_a_request_is_bounded():
    async with new_stage(ProxySettings(total_timeout_s=0.02), lane="fast") as s, await s.client() as client:
        await client.send(post())
        await s.upstream.accept()
        assert (await client.read_response()).status == 504
        assert (await s.director.ended()).reason == "timeout"


async def test_malformed_bytes_in_the_middle_of_a_request_end_it_once():
    async with new_stage(lane="fast") as s, await s.client() as client:
        await client.send(
            b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
        )
        await eventually(lambda: s.relay.in_flight == 1)
        await client.send(b"no chunk\r\n")
        assert (await client.read_response()).status == 400
        assert (await s.director.ended()).reason == "client_disconnected"
        await asyncio.sleep(0)
        assert s.director.ends.empty()


class Written:
    """Keeps what was written."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data


def test_a_header_with_a_line_break_is_never_written():
    output = Written()
    with pytest.raises(ValueError, match="line break"):
        AnswerWriter(output, 200, [(b"x-a", b"1\r\nx-b: 2")], close=False)
    assert output.data == b""


def test_an_answer_of_announced_length_is_written_as_it_is():
    output = Written()
    writer = AnswerWriter(output, 200, [(b"content-length", b"2")], close=True)
    writer.write(b"a")
    writer.write(b"b")
    writer.end()
    assert output.data == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab"


def test_an_answer_of_unknown_length_is_written_in_chunks():
    output = Written()
    writer = AnswerWriter(output, 200, [], close=False)
    writer.write(b"0123456789abcdef")
    writer.write(b"b")
    writer.end()
    assert output.data == (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n1\r\nb\r\n0\r\n\r\n"
    )


def test_an_answer_without_a_body_has_no_framing():
    output = Written()
    AnswerWriter(output, 204, [(b"x-a", b"1")], close=False).end()
    assert output.data == b"HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n"


@pytest.mark.parametrize("early", ["on_data", "on_end"])
def test_a_body_without_a_head_is_a_fault_of_the_pool(early):
    executions = FastExecutions(None, None, None, None, None)
    with pytest.raises(AssertionError):
        getattr(executions, early)(*([b"1"] if early == "on_data" else []))


async def test_answers_that_come_together_are_written_before_the_end_of_any_costs_anything():
    async with new_stage(lane="fast") as s, await s.client() as one, await s.client() as another:
        received = []
        tell = s.director.on_end

        def on_end(*arguments, **named):
            received.append([peeked(client) for client in (one, another)])
            tell(*arguments, **named)

        s.director.on_end = on_end
        s.director.targets *= 2
        endpoints = []
        for client in (one, another):
            client.writer.transport.pause_reading()
            await client.send(post())
            endpoints.append(await s.upstream.accept())
            await endpoints[-1].request()
        for endpoint in endpoints:
            endpoint.writer.write(OK)
        await s.director.ended()

        assert received[0] == [b"{}", b"{}"]


def peeked(client):
    """The last bytes that wait in a client's socket, if any do."""
    descriptor = client.writer.get_extra_info("socket").fileno()
    with socket.socket(fileno=os.dup(descriptor)) as raw:
        try:
            return raw.recv(65_536, socket.MSG_PEEK | socket.MSG_DONTWAIT)[-2:]
        except BlockingIOError:
            return b""


async def test_the_server_does_not_end_before_the_director_was_told_of_every_request():
    async with new_stage(lane="fast") as s:
        clients = [await s.client() for _ in range(200)]  # what some turns take
        for client in clients:
            await client.send(post())
        await eventually(lambda: s.relay.in_flight == 200)
        s.relay.shut_down()
        s.door.server.stop()
        await s.door.serving

        assert (s.director.ends.qsize(), s.relay.in_flight) == (200, 0)
        for client in clients:
            client.leave()
