"""Connections: keep-alive, pipelining, HTTP/1.0, upgrades, and how they end."""

import asyncio
import json

from epp.proxy import ProxySettings
from tests.proxy.harness import Door, RawClient, eventually, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer


async def echo(scope, receive, send):
    """Answers with the path and the body, in one chunk each."""
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["raw_path"] + b" ", "more_body": True})
    await send({"type": "http.response.body", "body": body})


async def test_a_connection_serves_several_requests():
    async with Door(echo) as door, await door.client() as client:
        for number in range(3):
            await client.send(post(b"%d" % number, path=b"/p"))
            assert (await client.read_response()).body == b"/p %d" % number


async def test_without_keep_alive_a_connection_serves_one_request_and_is_closed():
    async with Door(echo, ProxySettings(keep_alive_s=0)) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/p"))
        assert (await client.read_response()).body == b"/p 1"
        assert await client.read_to_end() == b""


async def test_pipelined_requests_are_answered_in_order():
    async with Door(echo) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a") + post(b"2", path=b"/b") + post(b"3", path=b"/c"))
        assert [(await client.read_response()).body for _ in range(3)] == [b"/a 1", b"/b 2", b"/c 3"]


async def test_a_request_that_comes_in_pieces_behind_another_is_answered():
    async with Door(echo) as door, await door.client() as client:
        second = post(b"22", path=b"/b")
        await client.send(post(b"1", path=b"/a") + second[:20])
        assert (await client.read_response()).body == b"/a 1"
        await client.send(second[20:-1])
        await client.send(second[-1:])
        assert (await client.read_response()).body == b"/b 22"


async def test_a_pipelined_request_with_half_a_body_is_answered():
    async with Door(echo) as door, await door.client() as client:
        second = post(b"22", path=b"/b")
        await client.send(post(b"1", path=b"/a") + second[:-1])
        assert (await client.read_response()).body == b"/a 1"
        await client.send(second[-1:])
        assert (await client.read_response()).body == b"/b 22"


async def test_garbage_behind_a_request_is_refused_after_its_answer():
    async with Door(echo) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a") + b"\x00\x00")
        assert (await client.read_response()).body == b"/a 1"
        refusal = await client.read_response()
        assert refusal.status == 400
        assert await client.read_to_end() == b""


async def test_a_broken_body_behind_a_request_is_refused_after_its_answer():
    async with Door(echo) as door, await door.client() as client:
        broken = b"POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
        await client.send(post(b"1", path=b"/a") + post(b"2", path=b"/b") + broken)
        assert (await client.read_response()).body == b"/a 1"
        assert (await client.read_response()).body == b"/b 2"
        assert (await client.read_response()).status == 400


async def test_more_pipelined_requests_than_the_limit_are_refused_after_the_answers():
    async with Door(echo) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a") * 40)
        statuses = [(await client.read_response()).status for _ in range(34)]
        assert statuses == [200] * 33 + [400]
        assert await client.read_to_end() == b""


async def test_a_client_that_leaves_behind_pipelined_requests_is_noticed(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post() + post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        client.leave()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


async def test_bytes_behind_a_request_are_held_up_to_a_limit_and_then_served():
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(scope, receive, send):
        begun.set()
        await release.wait()
        await echo(scope, receive, send)

    async with Door(slow) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a"))
        await begun.wait()
        large = post(b"x" * 3_000_000, path=b"/b")
        sending = asyncio.create_task(client.send(large))
        [connection] = door.connections
        await eventually(lambda: connection.flow.read_paused)
        assert 65_536 < len(connection._held) < 1_000_000
        release.set()
        assert (await client.read_response()).body == b"/a 1"
        await sending
        assert (await client.read_response()).body == b"/b " + b"x" * 3_000_000


async def test_a_client_that_leaves_behind_more_than_is_held_is_noticed(monkeypatch):
    monkeypatch.setattr("epp.proxy.server._TICK_S", 0.01)
    begun, gone = asyncio.Event(), asyncio.Event()

    async def slow(scope, receive, send):
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with Door(slow) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a"))
        await begun.wait()
        await client.send(post(b"x" * 200_000, path=b"/b"))
        await eventually(lambda: door.connections[0].flow.read_paused)
        client.leave()
        await asyncio.wait_for(gone.wait(), 10)


async def test_http10_gets_a_stream_without_chunks_and_the_end_of_the_connection(stage):
    async with stage() as s, await s.client() as client:
        await client.send(b"POST /v1/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        head = await client.read_head()
        assert head.values(b"transfer-encoding") == []
        assert head.value(b"connection") == b"close"
        assert await client.read_exactly(9) == b"data: 1\n\n"
        await endpoint.send(chunk(b"data: 2\n\n") + LAST_CHUNK)
        assert await client.read_to_end() == b"data: 2\n\n"
        assert (await s.director.ended()).reason == "complete"


async def test_http10_with_keep_alive_gets_a_body_of_known_length_and_the_end_of_the_connection(stage):
    async with stage() as s, await s.client() as client:
        await client.send(
            b"POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"
        )
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b'{"a":1}'))
        response = await client.read_response()
        assert response.value(b"content-length") == b"7"
        assert response.body == b'{"a":1}'
        assert await client.read_to_end() == b""


async def test_a_stream_to_http10_that_dies_is_reset_and_not_ended(stage):
    async with stage() as s, await s.client() as client:
        await client.send(b"POST /v1/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        assert await client.read_exactly(9) == b"data: 1\n\n"
        endpoint.reset()
        try:
            await client.read_to_end()
        except ConnectionResetError:
            return
        raise AssertionError("a clean end")


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


async def test_an_offer_of_http2_is_declined_and_the_request_served_with_its_body():
    async with Door(echo) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a", extra=H2C) + post(b"2", path=b"/b"))
        assert (await client.read_response()).body == b"/a 1"
        assert (await client.read_response()).body == b"/b 2"
        await client.send(post(b"3", path=b"/c", extra=H2C)[:-1])
        await client.send(b"3")
        assert (await client.read_response()).body == b"/c 3"


async def test_an_offer_of_websockets_is_declined_and_closing_is_kept():
    offer = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n"
    async with Door(echo) as door, await door.client() as client:
        await client.send(b"GET /w HTTP/1.1\r\nHost: x\r\n" + offer + b"\r\n")
        response = await client.read_response()
        assert (response.body, response.value(b"connection")) == (b"/w ", b"close")
        assert await client.read_to_end() == b""


async def test_connection_close_is_honoured_and_what_follows_is_not_served():
    async with Door(echo) as door, await door.client() as client:
        await client.send(post(b"1", path=b"/a", extra=b"Connection: close\r\n") + post(b"2", path=b"/b"))
        assert (await client.read_response()).body == b"/a 1"
        assert await client.read_to_end() == b""


async def test_100_continue_is_sent_when_the_body_is_wanted():
    async with Door(echo) as door, await door.client() as client:
        head = post(b"12", path=b"/a", extra=b"Expect: 100-continue\r\n")[:-2]
        await client.send(head)
        assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"12")
        assert (await client.read_response()).body == b"/a 12"


async def test_an_absolute_target_is_served_by_its_path():
    async with Door(echo) as door, await door.client() as client:
        await client.send(b"GET http://router/p%41th?q=1 HTTP/1.1\r\nHost: router\r\n\r\n")
        assert (await client.read_response()).body == b"/p%41th "


async def test_an_early_answer_reaches_a_client_that_is_still_sending():
    async def refuse(scope, receive, send):
        headers = [(b"connection", b"close"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b"no"})

    async with Door(refuse) as door, await door.client() as client:
        size = 8_000_000
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        await client.send(b"x" * size)
        response = await client.read_response()
        assert (response.status, response.body) == (413, b"no")
        assert await client.read_to_end() == b""


async def test_a_closing_connection_whose_client_goes_on_sending_is_gone_after_the_linger_time():
    async def refuse(scope, receive, send):
        await send({"type": "http.response.start", "status": 413, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body"})

    async with Door(refuse, ProxySettings(linger_timeout_s=0.05)) as door, await door.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert (await client.read_response()).status == 413
        await eventually(lambda: not door.connections)


async def test_an_answer_before_the_end_of_the_body_leaves_the_connection_usable():
    async def hasty(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with Door(hasty) as door, await door.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        assert (await client.read_response()).status == 200
        await client.send(b"abcde" + post(b""))
        assert (await client.read_response()).status == 200


async def test_a_body_that_breaks_after_its_answer_closes_the_connection_without_another():
    async def hasty(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with Door(hasty) as door, await door.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await client.read_response()).status == 200
        await client.send(b"zz\r\n")
        assert await client.read_to_end() == b""


async def test_a_body_that_breaks_during_its_answer_cuts_the_answer():
    started = asyncio.Event()

    async def early(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        started.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    async with Door(early) as door, await door.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.read_head()
        assert await client.read_chunk() == b"part"
        await client.send(b"zz\r\n")
        assert await client.read_to_end() == b""


async def test_an_exception_in_the_application_is_500_in_our_format(caplog):
    async def broken(scope, receive, send):
        raise RuntimeError("bug")

    async with Door(broken) as door, await door.client() as client:
        await client.send(post(extra=b"x-request-id: abc\r\n"))
        response = await client.read_response()
        assert response.status == 500
        assert response.value(b"x-request-id") == b"abc"
        assert json.loads(response.body)["error"]["code"] == "internal_error"
    assert "RuntimeError: bug" in caplog.text


async def test_a_client_that_connects_and_leaves_is_forgotten():
    async with Door(echo) as door:
        client = await RawClient.connect(door.port)
        await client.send(post(b"1"))
        await client.read_response()
        [connection] = door.connections
        client.leave()
        await eventually(lambda: not door.connections)
        assert not connection.busy
