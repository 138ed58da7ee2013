"""Bodies that nobody has to read go on as they come."""

import asyncio
import json

import pytest

from epp.director import Target
from epp.errors import ModelNotFoundError
from epp.http import UpstreamSettings
from epp.proxy import ProxySettings, bind_socket
from epp.proxy.uploads import is_forwarded_unread
from tests.proxy.harness import eventually
from tests.proxy.upstream import chunk, json_answer

LARGE = 1_000_000
OK = json_answer(b'{"text":"hi"}')
AUDIO = b"/v1/audio/transcriptions"


def head(length=LARGE, path=AUDIO, extra=b""):
    framing = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    return b"POST %b HTTP/1.1\r\nHost: router\r\n%b%b\r\n\r\n" % (path, extra, framing)


async def upstream_head(connection):
    """Request line and headers, with the body still to be read."""
    async with asyncio.timeout(10):
        text = await connection.reader.readuntil(b"\r\n\r\n")
    line, *fields = text[:-4].split(b"\r\n")
    return line, dict(field.split(b": ", 1) for field in fields)


async def read(connection, size):
    async with asyncio.timeout(10):
        return await connection.reader.readexactly(size)


@pytest.mark.parametrize(
    "method, path, headers, unread",
    [
        ("POST", "/v1/audio/transcriptions", [(b"content-length", b"65537")], True),
        ("POST", "/v1/audio/transcriptions", [(b"content-length", b"65536")], False),
        ("POST", "/v1/audio/transcriptions", [(b"transfer-encoding", b"chunked")], True),
        ("PUT", "/v1/files/x", [(b"content-length", b"70000")], True),
        ("PUT", "/v1/chat/completions", [(b"content-length", b"70000")], True),
        ("POST", "/v1/chat/completions", [(b"content-length", b"70000")], False),
        ("POST", "/v1/chat/completions", [(b"transfer-encoding", b"chunked")], False),
        ("GET", "/v1/files", [], False),
    ],
)
def test_a_body_is_forwarded_unread_if_it_shows_no_prompt_and_is_large_or_of_unknown_size(
    method, path, headers, unread
):
    assert is_forwarded_unread(method, path, headers) is unread


async def test_the_endpoint_gets_the_first_bytes_before_the_client_has_sent_the_last(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head() + b"a" * 100_000)
        endpoint = await s.upstream.accept()
        line, headers = await upstream_head(endpoint)
        assert await read(endpoint, 100_000) == b"a" * 100_000
        await client.send(b"b" * 900_000)
        assert await read(endpoint, 900_000) == b"b" * 900_000
        await endpoint.send(OK)
        response = await client.read_response()

        assert line == b"POST /v1/audio/transcriptions HTTP/1.1"
        assert headers[b"content-length"] == b"1000000"
        assert (response.status, response.body) == (200, b'{"text":"hi"}')
        ended = await s.director.ended()
        assert (ended.reason, ended.request_bytes) == ("complete", 1_000_000)
        assert ("prepare", None) in s.director.calls
        assert s.relay.buffered_bytes == 0


async def test_chunks_of_the_client_go_on_as_chunks(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head(None) + chunk(b"abc"))
        endpoint = await s.upstream.accept()
        _, headers = await upstream_head(endpoint)
        assert await read(endpoint, 8) == b"3\r\nabc\r\n"
        await client.send(chunk(b"de") + b"0\r\n\r\n")
        assert await read(endpoint, 12) == b"2\r\nde\r\n0\r\n\r\n"
        await endpoint.send(OK)

        assert headers[b"transfer-encoding"] == b"chunked"
        assert b"content-length" not in headers
        assert (await client.read_response()).status == 200


async def test_every_upload_has_a_fresh_connection_which_the_next_small_request_uses(stage):
    async with stage() as s, await s.client() as client:
        for _ in range(2):
            s.director.targets = [s.upstream.target()]
            await client.send(head() + b"a" * LARGE)
            endpoint = await s.upstream.accept()
            await upstream_head(endpoint)
            await read(endpoint, LARGE)
            await endpoint.send(OK)
            assert (await client.read_response()).status == 200
        s.director.targets = [s.upstream.target()]
        await client.send(b"GET /x HTTP/1.1\r\nHost: router\r\n\r\n")
        assert (await endpoint.request()).line == b"GET /x HTTP/1.1"
        await endpoint.send(OK)
        await client.read_response()
        assert s.upstream.accepted == 2


async def test_an_endpoint_that_takes_nothing_stops_the_client(stage):
    async with stage() as s, await s.client() as client:
        size = 48 * 1024 * 1024
        sending = asyncio.create_task(client.send(head(size) + b"a" * size))
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        [request] = s.relay._active
        await eventually(lambda: not request._upload._may_write.is_set())
        await eventually(lambda: s.door.connections[0].flow.read_paused)
        assert not sending.done()
        total = 0
        while total < size:
            total += len(await endpoint.reader.read(1 << 20))
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200
        await sending


async def test_a_refused_connection_goes_to_the_next_endpoint_with_nothing_lost(stage):
    bound = bind_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    async with stage() as s, await s.client() as client:
        s.director.targets.insert(0, Target(f"127.0.0.1:{port}", "http", "127.0.0.1", port, 7))
        await client.send(head() + b"a" * LARGE)
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        assert await read(endpoint, LARGE) == b"a" * LARGE
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200
        assert [(f.kind, f.written) for f in s.director.failures] == [("connect", False)]
    bound.close()


async def test_an_endpoint_that_breaks_off_an_upload_is_told_as_one_that_got_something(stage):
    async with stage(targets=1) as s, await s.client() as client:
        await client.send(head() + b"a" * 1000)
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        endpoint.reset()
        response = await client.read_response()
        assert response.status == 502
        assert response.value(b"connection") == b"close"
        [failure] = s.director.failures
        assert (failure.kind, failure.written) == ("broken", True)


async def test_an_answer_before_the_end_of_the_upload_reaches_the_client_and_closes_the_connection(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head() + b"a" * 1000)
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        await endpoint.send(json_answer(b'{"error":"no"}', b"413 Too Large"))
        response = await client.read_response()
        assert (response.status, response.body) == (413, b'{"error":"no"}')
        assert response.value(b"connection") == b"close"
        await client.send(b"a" * 1000)
        assert await client.read_to_end() == b""
        ended = await s.director.ended()
        assert (ended.reason, ended.request_bytes) == ("complete", 1000)


async def test_a_client_that_leaves_in_the_middle_closes_the_endpoints_connection(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head() + b"a" * 1000)
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        await read(endpoint, 1000)
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


@pytest.mark.parametrize("half_close", [False, True])
async def test_a_client_that_leaves_while_the_endpoint_takes_nothing_is_noticed(
    stage, monkeypatch, half_close
):
    monkeypatch.setattr("epp.proxy.server._TICK_S", 0.01)
    async with stage() as s, await s.client() as client:
        await client.send(head(60_000_000))
        await upstream_head(await s.upstream.accept())
        [request], [connection] = s.relay._active, s.door.connections
        upload = request._upload
        while not connection.flow.read_paused:  # piece by piece, so that the kernel holds little of it
            received = upload.size + len(connection.cycle.body)
            await client.send(b"a" * 32_768)
            await eventually(lambda: upload.size + len(connection.cycle.body) > received)  # noqa: B023
        await eventually(lambda: not upload._may_write.is_set())
        assert s.relay.in_flight == 1
        if half_close:
            client.writer.write_eof()
        else:
            client.leave()
        assert (await s.director.ended()).reason == "client_disconnected"
        await eventually(lambda: not s.door.connections)


async def test_an_announced_length_over_the_limit_is_refused_before_anything_is_sent(stage):
    async with stage(ProxySettings(max_request_bytes=100_000)) as s, await s.client() as client:
        await client.send(head(100_001))
        response = await client.read_response()
        assert response.status == 413
        assert s.upstream.accepted == 0


async def test_chunks_beyond_the_limit_break_off_the_upload(stage):
    async with stage(ProxySettings(max_request_bytes=1000)) as s, await s.client() as client:
        await client.send(head(None) + chunk(b"a" * 600))
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        await client.send(chunk(b"a" * 600))
        response = await client.read_response()
        assert (response.status, json.loads(response.body)["error"]["code"]) == (413, "payload_too_large")
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 413)


async def test_a_body_that_does_not_come_in_time_is_408(stage):
    async with stage(ProxySettings(body_timeout_s=0.05)) as s, await s.client() as client:
        await client.send(head() + b"a" * 1000)
        endpoint = await s.upstream.accept()
        response = await client.read_response()
        assert response.status == 408
        await upstream_head(endpoint)
        assert (await s.director.ended()).reason == "timeout"


async def test_an_endpoint_that_does_not_answer_is_504_after_the_upload(stage):
    settings = UpstreamSettings(first_byte_timeout_s=0.1)
    async with stage(upstream_settings=settings, targets=1) as s, await s.client() as client:
        await client.send(head() + b"a" * LARGE)
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        await read(endpoint, LARGE)
        assert (await client.read_response()).status == 504


async def test_a_client_that_waits_for_100_continue_gets_it_when_an_endpoint_takes_the_body(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head(extra=b"Expect: 100-continue\r\n", path=b"/v1/files"))
        endpoint = await s.upstream.accept()
        _, headers = await upstream_head(endpoint)
        assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"a" * LARGE)
        await read(endpoint, LARGE)
        await endpoint.send(OK)
        assert b"expect" not in headers
        assert (await client.read_response()).status == 200


FORM_HEAD = b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--XX\r\n'
FORM_TYPE = b"Content-Type: multipart/form-data; boundary=XX\r\n"


async def test_the_model_that_a_form_names_near_its_beginning_is_known_to_the_director(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head(extra=FORM_TYPE) + FORM_HEAD[:20])
        await eventually(lambda: s.door.connections)
        await client.send(FORM_HEAD[20:] + b"a" * (LARGE - len(FORM_HEAD)))
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        body = await read(endpoint, LARGE)
        await endpoint.send(OK)
        await client.read_response()
        assert body == FORM_HEAD + b"a" * (LARGE - len(FORM_HEAD))
        assert ("prepare", "whisper") in s.director.calls


async def test_a_form_whose_model_comes_late_is_routed_without_it(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head(extra=FORM_TYPE) + b"--XX\r\n\r\n" + b"a" * 20_000)
        await s.upstream.accept()
        assert ("prepare", None) in s.director.calls


async def test_a_short_form_in_chunks_is_read_to_its_end_and_forwarded(stage):
    async with stage() as s, await s.client() as client:
        await client.send(head(None, extra=FORM_TYPE) + chunk(b"--XX--") + b"0\r\n\r\n")
        endpoint = await s.upstream.accept()
        await upstream_head(endpoint)
        assert await read(endpoint, 16) == b"6\r\n--XX--\r\n0\r\n\r\n"
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200


async def test_an_unknown_model_is_refused_before_anything_is_sent(stage):
    async with stage() as s, await s.client() as client:
        s.director.prepare_error = ModelNotFoundError("no such model")
        await client.send(head(extra=FORM_TYPE) + FORM_HEAD)
        response = await client.read_response()
        assert (response.status, response.value(b"connection")) == (404, b"close")
        assert s.upstream.accepted == 0
