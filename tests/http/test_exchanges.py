"""Exchanges with scripted endpoints on real sockets, on both event loops."""

import asyncio
import contextlib
import pathlib
import socket
import ssl

import pytest

from epp.http import ErrorKind, Origin, UpstreamPool, UpstreamRequest, UpstreamSettings
from tests.http.servers import AwaitableSink, answering, endpoint, get, post

TLS = pathlib.Path(__file__).parents[1] / "fixtures" / "tls"
LENGTH_2 = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def pool(**settings):
    upstream = UpstreamPool(UpstreamSettings(**settings))
    try:
        yield upstream
    finally:
        await upstream.close()


async def exchange(upstream, origin, request, *, fresh=False):
    sink = AwaitableSink()
    handle = upstream.send(origin, request, sink, fresh=fresh)
    failure = await sink.done
    return sink, failure, handle


def test_request_arrives_as_written_and_its_response_comes_back(run):
    async def scenario():
        received = []

        async def script(peer):
            received.append(await peer.request())
            await peer.send(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX-A: b\r\n\r\nab")

        async with endpoint(script) as origin, pool() as upstream:
            sink, failure, handle = await exchange(upstream, origin, post(b'{"a":1}'))
        return received, origin.port, sink.head, sink.body, failure, handle.reused

    received, port, head, body, failure, reused = run(scenario())

    assert received == [
        b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 7\r\n\r\n{" % port
        + b'"a":1}'
    ]
    assert (head.status, head.reason, head.headers) == (
        201,
        b"Created",
        [(b"Content-Length", b"2"), (b"X-A", b"b")],
    )
    assert (body, failure, reused) == (b"ab", None, False)


@pytest.mark.parametrize(
    "transcript",
    [
        LENGTH_2 + b"ab",
        CHUNKED + b"1\r\na\r\n1;x=y\r\nb\r\n0\r\nT: v\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH_2 + b"ab",
    ],
    ids=["length", "chunked", "interim"],
)
def test_response_written_byte_by_byte_is_the_same(run, transcript):
    async def scenario():
        async def script(peer):
            await peer.request()
            for i in range(len(transcript)):
                await peer.send(transcript[i : i + 1])
                await asyncio.sleep(0)
            await peer.closed_by_client()

        async with endpoint(script) as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, get())
            return sink.head.status, sink.body, failure, upstream.stats().idle

    assert run(scenario()) == (200, b"ab", None, 1)


def test_connections_are_reused_with_nagle_off(run):
    async def scenario():
        async with endpoint(answering(LENGTH_2 + b"ab")) as origin, pool() as upstream:
            handles = [(await exchange(upstream, origin, get()))[2] for _ in range(3)]
            connection = next(iter(upstream._hosts[origin].idle))
            sock = connection._transport.get_extra_info("socket")
            options = (
                sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
                sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            )
            return [handle.reused for handle in handles], options, upstream.stats()

    reused, options, stats = run(scenario())

    assert reused == [False, True, True]
    assert options == (1, 1, 30)
    assert (stats.idle, stats.active, stats.opened_total, stats.reused_total) == (1, 0, 1, 2)


def test_fresh_exchange_leaves_idle_connections_alone(run):
    async def scenario():
        async with endpoint(answering(LENGTH_2 + b"ab")) as origin, pool() as upstream:
            await exchange(upstream, origin, get())
            _, failure, handle = await exchange(upstream, origin, get(), fresh=True)
            return failure, handle.reused, upstream.stats().idle

    assert run(scenario()) == (None, False, 2)


def test_idle_connection_closed_by_the_endpoint_is_dropped_at_once(run):
    async def scenario():
        let_go = asyncio.Event()

        async def script(peer):
            await peer.request()
            await peer.send(LENGTH_2 + b"ab")
            await let_go.wait()

        async with endpoint(script) as origin, pool() as upstream:
            closed = asyncio.Event()
            forget = upstream.on_closed
            upstream.on_closed = lambda connection: (forget(connection), closed.set())
            await exchange(upstream, origin, get())
            idle_before = upstream.stats().idle
            let_go.set()
            await closed.wait()
            _, failure, handle = await exchange(upstream, origin, get())
            return idle_before, failure, handle.reused

    assert run(scenario()) == (1, None, False)


def test_reused_connection_that_closes_without_a_byte_is_told_apart_and_a_fresh_one_works(run):
    async def scenario():
        connections = 0

        async def script(peer):
            nonlocal connections
            connections += 1
            await peer.request()
            await peer.send(LENGTH_2 + b"ab")
            if connections == 1:
                await peer.request()  # and close, as a server does whose idle time ends at this moment

        async with endpoint(script) as origin, pool() as upstream:
            await exchange(upstream, origin, get())
            _, first, _ = await exchange(upstream, origin, post(b"{}"))
            sink, second, handle = await exchange(upstream, origin, post(b"{}"), fresh=True)
            return first, second, sink.body, handle.reused

    first, second, body, reused = run(scenario())

    assert (first.kind, first.written) == (ErrorKind.CLOSED_REUSED, True)
    assert (second, body, reused) == (None, b"ab", False)


@pytest.mark.parametrize(
    ("sent", "kind", "status"),
    [
        (b"", ErrorKind.BROKEN, None),
        (b"HTTP/1.1 200 OK\r\nConten", ErrorKind.BROKEN, None),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ErrorKind.PROTOCOL, None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", ErrorKind.ABORTED_AFTER_HEAD, 200),
        (CHUNKED + b"2\r\nab\r\n", ErrorKind.ABORTED_AFTER_HEAD, 200),
        (CHUNKED + b"2\r\nab\r\nzz\r\n", ErrorKind.ABORTED_AFTER_HEAD, 200),
    ],
)
def test_connection_that_ends_early_is_a_failure_and_never_an_end(run, sent, kind, status):
    async def scenario():
        async def script(peer):
            await peer.request()
            await peer.send(sent)

        async with endpoint(script) as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, post(b"{}"))
            return failure.kind, failure.written, sink.head and sink.head.status

    assert run(scenario()) == (kind, True, status)


def test_reset_in_a_stream_is_an_abort(run):
    async def scenario():
        heard = asyncio.Event()

        async def script(peer):
            await peer.request()
            await peer.send(CHUNKED + b"2\r\nab\r\n")
            await heard.wait()
            peer.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
            peer.reset()

        async with endpoint(script) as origin, pool() as upstream:
            sink = AwaitableSink()
            upstream.send(origin, post(b"{}"), sink)
            await sink.began
            heard.set()
            return (await sink.done).kind, sink.body

    assert run(scenario()) == (ErrorKind.ABORTED_AFTER_HEAD, b"ab")


def test_body_without_framing_ends_with_the_connection(run):
    async def scenario():
        async def script(peer):
            await peer.request()
            await peer.send(b"HTTP/1.0 200 OK\r\n\r\nabc")

        async with endpoint(script) as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, get())
            return sink.body, failure

    assert run(scenario()) == (b"abc", None)


@pytest.mark.parametrize(
    ("method", "response", "status"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304),
        (b"DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
    ],
)
def test_responses_without_a_body_end_with_their_head(run, method, response, status):
    async def scenario():
        async with endpoint(answering(response)) as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, UpstreamRequest(method, b"/", [], b""))
            return sink.head.status, sink.body, failure

    assert run(scenario()) == (status, b"", None)


def test_refused_connection_wrote_nothing(run):
    async def scenario():
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            origin = Origin("http", "127.0.0.1", unused.getsockname()[1])
            async with pool() as upstream:
                _, failure, _ = await exchange(upstream, origin, post(b"{}"))
                return failure.kind, failure.written, upstream.stats()

    kind, written, stats = run(scenario())

    assert (kind, written) == (ErrorKind.CONNECT, False)
    assert (stats.idle, stats.active) == (0, 0)


def test_endpoint_that_never_answers_is_given_up_at_the_first_byte_timeout(run):
    async def scenario():
        gone = asyncio.Event()

        async def script(peer):
            await peer.request()
            await peer.closed_by_client()
            gone.set()

        async with endpoint(script) as origin, pool(first_byte_timeout_s=0.02) as upstream:
            _, failure, _ = await exchange(upstream, origin, post(b"{}"))
            await gone.wait()
            return failure.kind, failure.written

    assert run(scenario()) == (ErrorKind.FIRST_BYTE_TIMEOUT, True)


def test_abort_closes_the_endpoints_connection_though_nothing_flows(run):
    async def scenario():
        gone = asyncio.Event()

        async def script(peer):
            await peer.request()
            await peer.send(CHUNKED + b"2\r\nab\r\n")
            await peer.closed_by_client()
            gone.set()

        async with endpoint(script) as origin, pool() as upstream:
            sink = AwaitableSink()
            handle = upstream.send(origin, post(b"{}"), sink)
            await sink.began
            handle.abort()
            await gone.wait()
            return sink.done.done(), upstream.stats().active

    assert run(scenario()) == (False, 0)


def test_paused_exchange_makes_the_endpoints_writes_wait(run):
    size = 48 * 1024 * 1024

    async def scenario():
        writers = []

        async def script(peer):
            await peer.request()
            writers.append(peer.writer)
            peer.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            await peer.closed_by_client()

        async with endpoint(script) as origin, pool() as upstream:
            sink = AwaitableSink()
            total = 0
            told = []

            def count(data):
                nonlocal total
                total += len(data)
                told.append(total)
                if len(told) == 1:
                    handle.pause()

            sink.on_data = count
            handle = upstream.send(origin, get(), sink)
            for _ in range(300):
                await asyncio.sleep(0)
            pieces_while_paused, unwritten = len(told), writers[0].transport.get_write_buffer_size()
            handle.resume()
            failure = await sink.done
            return pieces_while_paused, unwritten, failure, total

    pieces, unwritten, failure, total = run(scenario())

    assert pieces == 1
    assert unwritten > 24 * 1024 * 1024
    assert (failure, total) == (None, size)


def test_large_request_body_arrives_whole_at_a_slow_reader(run):
    body = bytes(range(256)) * 65_536

    async def scenario():
        received = []

        async def script(peer):
            request = await peer.request()
            received.append(request[request.index(b"\r\n\r\n") + 4 :] == body)
            await peer.send(LENGTH_2 + b"ab")

        async with endpoint(script, limit=65_536) as origin, pool() as upstream:
            _, failure, _ = await exchange(upstream, origin, post(body))
            return received, failure

    assert run(scenario()) == ([True], None)


def test_response_that_comes_before_the_body_is_written_is_delivered(run):
    async def scenario():
        async def script(peer):
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\nno")
            await peer.closed_by_client()

        async with endpoint(script) as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, post(b"x" * 50_000_000))
            return sink.head.status, sink.body, failure, upstream.stats().idle

    assert run(scenario()) == (413, b"no", None, 0)


def test_many_exchanges_run_at_once(run):
    async def scenario():
        async def script(peer):
            while True:
                request = await peer.request()
                await asyncio.sleep(0)
                number = request.split(b" ")[1][1:]
                await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(number), number))

        async with endpoint(script, backlog=400) as origin, pool() as upstream:
            bodies = []
            for _ in range(2):
                results = await asyncio.gather(
                    *(exchange(upstream, origin, get(b"/%d" % number)) for number in range(200))
                )
                bodies.append([sink.body for sink, _, _ in results])
            return bodies, upstream.stats()

    bodies, stats = run(scenario())

    assert bodies == [[b"%d" % number for number in range(200)]] * 2
    assert (stats.idle, stats.active, stats.opened_total, stats.reused_total) == (200, 0, 200, 200)


def test_ipv6_endpoint_is_reached_and_named_in_brackets(run):
    async def scenario():
        received = []

        async def script(peer):
            received.append(await peer.request())
            await peer.send(LENGTH_2 + b"ab")

        async with endpoint(script, host="::1") as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, get())
            return received, origin.port, sink.body, failure

    received, port, body, failure = run(scenario())

    assert received == [b"GET / HTTP/1.1\r\nhost: [::1]:%d\r\n\r\n" % port]
    assert (body, failure) == (b"ab", None)


def test_proxies_in_the_environment_are_not_used(run, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def scenario():
        async with endpoint(answering(LENGTH_2 + b"ab")) as origin, pool() as upstream:
            sink, failure, _ = await exchange(upstream, origin, get())
            return sink.body, failure

    assert run(scenario()) == (b"ab", None)


def server_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "localhost-cert.pem", TLS / "localhost-key.pem")
    return context


def test_https_endpoint_with_a_trusted_certificate(run):
    async def scenario():
        trust = ssl.create_default_context(cafile=TLS / "localhost-cert.pem")
        async with (
            endpoint(answering(LENGTH_2 + b"ab"), ssl=server_tls()) as origin,
            pool(ssl_context=trust) as upstream,
        ):
            results = [await exchange(upstream, origin, post(b"x" * 100_000)) for _ in range(2)]
            return [(sink.body, failure, handle.reused) for sink, failure, handle in results]

    assert run(scenario()) == [(b"ab", None, False), (b"ab", None, True)]


def test_https_endpoint_with_an_unknown_certificate_is_a_connect_failure(run):
    async def scenario():
        async with endpoint(answering(LENGTH_2 + b"ab"), ssl=server_tls()) as origin, pool() as upstream:
            _, failure, _ = await exchange(upstream, origin, get())
            return failure.kind, failure.written

    assert run(scenario()) == (ErrorKind.CONNECT, False)


def test_closing_the_pool_fails_what_is_under_way_and_refuses_what_comes(run):
    async def scenario():
        async def script(peer):
            await peer.request()
            await peer.send(CHUNKED + b"2\r\nab\r\n")
            await peer.closed_by_client()

        async def silent(peer):
            await peer.closed_by_client()

        async with endpoint(script) as streaming, endpoint(silent) as waiting:
            upstream = UpstreamPool(UpstreamSettings())
            begun, unanswered = AwaitableSink(), AwaitableSink()
            upstream.send(streaming, post(b"{}"), begun)
            upstream.send(waiting, post(b"{}"), unanswered)
            await begun.began
            await upstream.close()
            _, refused, _ = await exchange(upstream, streaming, get())
            await upstream.close()
            return [await begun.done, await unanswered.done, refused], upstream.stats()

    failures, stats = run(scenario())

    assert [(f.kind, f.detail) for f in failures] == [
        (ErrorKind.ABORTED_AFTER_HEAD, "the pool is closed"),
        (ErrorKind.POOL_EXHAUSTED, "the pool is closed"),
        (ErrorKind.POOL_EXHAUSTED, "the pool is closed"),
    ]
    assert (stats.idle, stats.active) == (0, 0)
