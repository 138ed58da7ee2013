"""Draining: readiness at once, new requests while others are in flight, an end in time."""

import asyncio
import socket

import pytest

from epp.proxy import EppServer, ProxySettings, bind_socket
from tests.proxy.conftest import new_stage
from tests.proxy.harness import Door, RawClient, eventually, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer


async def streaming(s, client):
    """Begin a stream; returns the endpoint's side."""
    await client.send(post())
    endpoint = await s.upstream.accept()
    await endpoint.request()
    await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
    await client.read_head()
    assert await client.read_chunk() == b"data: 1\n\n"
    return endpoint


async def served_once_more(s, client):
    """One request is answered and its connection is closed."""
    await client.send(post())
    s.director.targets[0] = s.upstream.target(fresh=True)
    answering = await s.upstream.accept()
    await answering.request()
    await answering.send(json_answer(b"{}"))
    response = await client.read_response()
    assert (response.status, response.value(b"connection")) == (200, b"close")
    assert await client.read_to_end() == b""


async def test_requests_are_served_while_another_is_in_flight_and_then_the_server_ends(stage):
    async with stage() as s, await s.client() as streamed, await s.client() as idle:
        s.director.targets += [s.upstream.target()] * 2
        endpoint = await streaming(s, streamed)
        assert not s.door.server.draining
        s.door.server.begin_drain()
        assert s.door.server.draining
        await served_once_more(s, idle)
        async with await s.client() as newcomer:
            await served_once_more(s, newcomer)
        assert not s.door.serving.done()
        await endpoint.send(chunk(b"data: 2\n\n") + LAST_CHUNK)
        assert await streamed.read_to_end() == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        await asyncio.wait_for(s.door.serving, 10)
        with pytest.raises(ConnectionRefusedError):
            await RawClient.connect(s.door.port)


async def test_an_idle_server_ends_at_once_and_closes_its_idle_connections(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b"{}"))
        await client.read_response()
        s.door.server.begin_drain()
        s.door.server.begin_drain()
        await asyncio.wait_for(s.door.serving, 10)
        assert await client.read_to_end() == b""


async def test_a_request_that_is_being_received_is_still_served(stage):
    async with stage() as s, await s.client() as client:
        raw = post(b"body")
        await client.send(raw[:30])
        await eventually(lambda: any(connection.busy for connection in s.door.connections))
        s.door.server.begin_drain()
        await client.send(raw[30:])
        endpoint = await s.upstream.accept()
        assert (await endpoint.request()).body == b"body"
        await endpoint.send(json_answer(b"{}"))
        response = await client.read_response()
        assert (response.status, response.value(b"connection")) == (200, b"close")


async def test_at_the_timeout_streams_are_cut_and_what_waits_gets_503(stage):
    async with (
        stage(ProxySettings(drain_timeout_s=0.2)) as s,
        await s.client() as streamed,
        await s.client() as waiting,
    ):
        s.director.targets.append(s.upstream.target())
        endpoint = await streaming(s, streamed)
        await waiting.send(post())
        silent = await s.upstream.accept()
        await silent.request()
        s.door.server.begin_drain()
        response = await waiting.read_response()
        assert response.status == 503
        assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-shutting-down"
        assert await streamed.read_to_end() == b""
        await endpoint.closed_by_router()
        await silent.closed_by_router()
        await asyncio.wait_for(s.door.serving, 10)
        ends = [await s.director.ended(), await s.director.ended()]
        assert [end.reason for end in ends] == ["shutdown", "shutdown"]
        assert sorted(end.error.status if end.error else 0 for end in ends) == [0, 503]


async def test_a_relay_that_was_shut_down_refuses_what_comes(stage):
    async with stage() as s, await s.client() as client:
        s.relay.shut_down()
        await client.send(post(b"x" * 10))
        response = await client.read_response()
        assert response.status == 503
        assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-shutting-down"
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("shutdown", 503)
        assert s.upstream.accepted == 0


async def test_what_ignores_the_timeout_is_cancelled(caplog):
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    async def stubborn(scope, receive, send):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with Door(stubborn, ProxySettings(drain_timeout_s=0.1)) as door, await door.client() as client:
        await client.send(post())
        await begun.wait()
        door.server.begin_drain()
        await asyncio.wait_for(door.serving, 10)
        assert cancelled.is_set()
        assert await client.read_to_end() == b""
    assert caplog.records == []


async def test_a_server_that_is_cancelled_closes_its_sockets_and_connections():
    async def silent(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    main, admin = bind_socket("127.0.0.1", 0), bind_socket("127.0.0.1", 0)
    port = main.getsockname()[1]
    server = EppServer(silent, ProxySettings(), admin_app=silent)
    serving = asyncio.create_task(server.serve([main], [admin]))
    await server.started.wait()
    async with await RawClient.connect(port) as client:
        await client.send(post())
        await eventually(server._busy)
        serving.cancel()
        assert await client.read_to_end() == b""
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (main.fileno(), admin.fileno()) == (-1, -1)
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(port)


async def test_a_server_that_cannot_listen_closes_the_sockets_that_it_was_given():
    async def app(scope, receive, send):
        raise AssertionError("nobody connects")

    good, bad = bind_socket("127.0.0.1", 0), socket.socket()
    bad.close()
    server = EppServer(app, ProxySettings(), admin_app=app)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await server.serve([good], [bad])
    assert good.fileno() == -1
    assert not server.started.is_set()


async def test_a_relayed_request_that_is_cancelled_ends_as_shutdown():
    async with new_stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        [task] = s.door.server._listeners[0].server_state.tasks
        task.cancel()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "shutdown"


async def test_stop_does_not_wait_for_the_drain_timeout(stage):
    async with stage() as s, await s.client() as streamed:
        endpoint = await streaming(s, streamed)
        s.door.server.stop()
        assert await streamed.read_to_end() == b""
        await endpoint.closed_by_router()
        await asyncio.wait_for(s.door.serving, 10)


async def test_the_hooks_are_called_when_a_drain_begins_and_when_it_takes_too_long():
    calls = []

    async def hangs(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    hooks = {"on_drain": lambda: calls.append("drain"), "on_drain_timeout": lambda: calls.append("timeout")}
    async with (
        Door(hangs, ProxySettings(drain_timeout_s=0.1), **hooks) as door,
        await door.client() as client,
    ):
        await client.send(post())
        await eventually(door.server._busy)
        door.server.begin_drain()
        assert calls == ["drain"]
        await asyncio.wait_for(door.serving, 10)
        assert calls == ["drain", "timeout"]


async def test_the_admin_application_has_its_own_sockets():
    def answering(text):
        async def app(scope, receive, send):
            headers = [(b"content-length", b"%d" % len(text))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": text})

        return app

    door = Door(answering(b"main"), admin_app=answering(b"admin"))
    admin_socket = bind_socket("127.0.0.1", 0)
    port = admin_socket.getsockname()[1]
    door.admin_sockets = [admin_socket]
    async with door, await door.client() as client, await RawClient.connect(port) as admin:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.read_response()).body == b"main"
        await admin.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await admin.read_response()).body == b"admin"


async def test_the_date_of_answers_is_kept_current(monkeypatch):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    monkeypatch.setattr("epp.proxy.server._TICK_S", 0.001)
    async with Door(app) as door, await door.client() as client:
        [listener] = door.server._listeners
        listener.server_state.default_headers = []
        await eventually(lambda: listener.server_state.default_headers)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.read_response(bodiless=True)).value(b"date").endswith(b" GMT")


def test_binding_an_address_in_use_fails_and_leaks_no_socket():
    with bind_socket("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(OSError, match="in use"):
            bind_socket("127.0.0.1", bound.getsockname()[1])


def test_an_ipv6_host_takes_ipv4_too():
    with bind_socket("::", 0) as bound:
        assert bound.family.name == "AF_INET6"
        assert bound.getsockopt(41, 26) == 0
