"""The front door over TLS, on real sockets: certificates, their replacement under traffic, and the ends of answers."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from epp.http.tls import ListenerTls, listener_context
from epp.proxy import ProxySettings, bind_socket
from tests.certificates import Authority
from tests.proxy.harness import PATIENCE_S, Door, RawClient, eventually, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path, "ours")


def tls(pair, **options):
    return listener_context(ListenerTls(pair.cert, pair.key, **options))


async def connect(door, context, port=None) -> RawClient:
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port or door.port, ssl=context)
    return RawClient(reader, writer)


async def serial(door, context, port=None) -> int:
    """Of the certificate that a new connection sees, whose first request is answered."""
    from cryptography import x509

    async with await connect(door, context, port) as client:
        shown = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.read_response(bodiless=True)).status == 204
        return x509.load_der_x509_certificate(shown).serial_number


async def nothing(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def test_a_request_and_its_answer_pass_and_the_endpoint_learns_the_scheme(stage, ca):
    body = b"x" * 3_000_000
    async with stage(tls=tls(ca.issue())) as s, await connect(s.door, ca.client()) as client:
        sending = asyncio.create_task(client.send(post(body)))
        endpoint = await s.upstream.accept()
        request = await endpoint.request()
        await sending
        assert request.body == body
        assert request.values(b"x-forwarded-proto") == [b"https"]
        assert request.values(b"x-forwarded-for") == [b"127.0.0.1"]
        answering = asyncio.create_task(endpoint.send(json_answer(body)))
        assert (await client.read_response()).body == body
        await answering
        s.director.targets.append(s.upstream.target())
        await client.send(post())
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        assert await client.read_chunk() == b"data: 1\n\n"
        await endpoint.send(LAST_CHUNK)
        assert await client.read_chunk() == b""


async def test_a_client_that_leaves_closes_its_endpoint(stage, ca):
    async with stage(tls=tls(ca.issue())) as s:
        client = await connect(s.door, ca.client())
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        client.writer.close()
        await endpoint.closed_by_router()
        assert (await s.director.ended()).reason == "client_disconnected"


async def test_a_stream_that_dies_is_cut_and_not_ended(stage, ca):
    async with stage(tls=tls(ca.issue())) as s, await connect(s.door, ca.client()) as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        assert await client.read_chunk() == b"data: 1\n\n"
        endpoint.reset()
        assert await client.read_to_end() == b""


async def test_a_stream_to_http10_that_dies_has_no_orderly_end(stage, ca):
    def ask(port: int) -> bytes:
        """What came before the connection broke; an orderly end is a failure of the test."""
        received = b""
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as raw,
            ca.client().wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as client,
        ):
            client.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
            with contextlib.suppress(ssl.SSLEOFError, ConnectionResetError):
                while piece := client.recv(65_536):
                    received += piece
                raise AssertionError("the answer looks complete")
        return received

    async with stage(tls=tls(ca.issue())) as s:
        asking = asyncio.create_task(asyncio.to_thread(ask, s.door.port))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await eventually(lambda: ("first_byte", None) in s.director.calls)
        endpoint.reset()
        assert (await asking).endswith(b"\r\n\r\ndata: 1\n\n")


async def test_an_early_error_reaches_a_client_that_is_still_sending(stage, ca):
    settings = ProxySettings(max_request_bytes=10, linger_timeout_s=5)
    async with stage(settings, tls=tls(ca.issue())) as s, await connect(s.door, ca.client()) as client:
        await client.send(post(b"x" * 100_000)[:-50_000])
        response = await client.read_response()
        assert response.status == 413
        assert response.value(b"connection") == b"close"
        await client.send(b"x" * 50_000)
        client.writer.close()
        await eventually(lambda: not s.door.connections)


async def test_a_client_that_goes_on_sending_after_an_early_error_is_gone_after_the_linger_time(stage, ca):
    settings = ProxySettings(max_request_bytes=10, linger_timeout_s=0.05)
    async with stage(settings, tls=tls(ca.issue())) as s, await connect(s.door, ca.client()) as client:
        await client.send(post(b"x" * 100)[:-50])
        assert (await client.read_response()).status == 413
        await eventually(lambda: not s.door.connections)


async def test_a_body_that_breaks_during_its_answer_cuts_the_answer_at_once(ca):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    settings = ProxySettings(linger_timeout_s=60)
    async with Door(app, settings, tls=tls(ca.issue())) as door, await connect(door, ca.client()) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.read_head()
        assert await client.read_chunk() == b"a"
        await client.send(b"zz\r\n")
        assert await client.read_to_end() == b""


async def test_what_speaks_no_tls_gets_no_answer(ca):
    async with Door(nothing, tls=tls(ca.issue())) as door, await door.client() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in await client.read_to_end()


async def test_a_handshake_that_takes_longer_than_a_head_may_is_ended(ca):
    settings = ProxySettings(head_timeout_s=0.05)
    async with Door(nothing, settings, tls=tls(ca.issue())) as door, await door.client() as client:
        with contextlib.suppress(ConnectionResetError):
            await client.read_to_end()


async def test_without_a_clients_certificate_there_is_no_connection_where_one_is_asked_for(ca, tmp_path):
    clients = Authority(tmp_path, "clients")
    async with Door(nothing, tls=tls(ca.issue("server"), client_ca=clients.file)) as door:
        assert await serial(door, ca.client(clients.issue("client")))
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await serial(door, ca.client())
        assert not door.connections


async def test_a_new_certificate_is_shown_to_new_connections_and_others_go_on(stage, ca):
    first, second = ca.issue("first"), ca.issue("second")
    async with stage(tls=tls(first)) as s, await connect(s.door, ca.client()) as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await client.read_head()
        assert await client.read_chunk() == b"data: 1\n\n"

        await s.door.server.use_tls(tls(second))

        async with await connect(s.door, ca.client()) as newer:
            shown = newer.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
            assert int(shown, 16) == second.serial
        await endpoint.send(chunk(b"data: 2\n\n") + LAST_CHUNK)
        assert await client.read_chunk() == b"data: 2\n\n"
        assert await client.read_chunk() == b""


async def test_certificates_are_replaced_under_traffic_without_losing_a_connection(ca):
    pairs = [ca.issue(str(number)) for number in range(6)]
    context = ca.client()
    seen: list[int] = []

    async def ask_until(over: asyncio.Event, door: Door) -> None:
        while not over.is_set():
            seen.append(await serial(door, context))

    async with Door(nothing, tls=tls(pairs[0])) as door:
        over = asyncio.Event()
        clients = [asyncio.create_task(ask_until(over, door)) for _ in range(4)]
        for pair in pairs[1:]:
            count = len(seen)
            await eventually(lambda count=count: len(seen) > count + 8)
            await door.server.use_tls(tls(pair))
            assert await serial(door, context) == pair.serial
        over.set()
        await asyncio.gather(*clients)
    assert {pair.serial for pair in pairs} >= set(seen)
    assert len(set(seen)) >= 5


async def test_a_session_of_an_older_context_is_not_resumed(ca, tmp_path):
    """A client whose authority is no longer accepted must not come back with a ticket from before."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    server = ca.issue("server")
    context = ca.client(old.issue("client"), version=ssl.TLSVersion.TLSv1_2)

    def visit(port: int, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession, bool]:
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as raw,
            context.wrap_socket(raw, server_hostname="localhost", session=session) as client,
        ):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 204")
            return client.session, client.session_reused

    async with Door(nothing, tls=tls(server, client_ca=old.file)) as door:
        session, _ = await asyncio.to_thread(visit, door.port, None)
        assert (await asyncio.to_thread(visit, door.port, session))[1]
        await door.server.use_tls(tls(server, client_ca=new.file))
        with pytest.raises(OSError):
            await asyncio.to_thread(visit, door.port, session)


async def test_the_admin_listener_has_a_certificate_of_its_own_or_none(ca):
    main, admin, newer = ca.issue("main"), ca.issue("admin"), ca.issue("newer")
    door = Door(nothing, admin_app=nothing, tls=tls(main), admin_tls=tls(admin))
    door.admin_sockets = [bind_socket("127.0.0.1", 0)]
    port = door.admin_sockets[0].getsockname()[1]
    async with door:
        assert await serial(door, ca.client()) == main.serial
        assert await serial(door, ca.client(), port) == admin.serial
        await door.server.use_admin_tls(tls(newer))
        assert await serial(door, ca.client()) == main.serial
        assert await serial(door, ca.client(), port) == newer.serial


async def test_a_server_that_has_ended_listens_no_more_after_a_change(ca):
    async with Door(nothing, tls=tls(ca.issue("a"))) as door:
        pass
    await door.server.use_tls(tls(ca.issue("b")))
    with pytest.raises(OSError):
        await RawClient.connect(door.port)


async def test_a_change_that_meets_the_end_of_the_server_leaves_no_listener(ca):
    async with Door(nothing, tls=tls(ca.issue("a"))) as door:
        [listener] = door.server._listeners
        changing = asyncio.create_task(door.server.use_tls(tls(ca.issue("b"))))
        listen = listener._listen

        async def listen_and_end(context):
            servers = await listen(context)
            listener.close()
            return servers

        listener._listen = listen_and_end
        await changing
        with pytest.raises(OSError):
            await RawClient.connect(door.port)


async def test_a_connection_whose_handshake_ends_after_the_listener_did_is_closed(ca):
    async with Door(nothing, tls=tls(ca.issue())) as door:
        [listener] = door.server._listeners
        listener.server_state.closed = True
        async with await connect(door, ca.client()) as client:
            assert await client.read_to_end() == b""
        await eventually(lambda: not door.connections)


async def test_a_drain_ends_with_connections_over_tls(ca):
    async with Door(nothing, tls=tls(ca.issue())) as door, await connect(door, ca.client()) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.read_response(bodiless=True)
        door.server.begin_drain()
        assert await client.read_to_end() == b""
        await asyncio.wait_for(door.serving, PATIENCE_S)
