"""One whole response, awaited."""

import asyncio

import pytest

from epp.http import ErrorKind, FetchError, Response, UpstreamPool, UpstreamSettings, fetch
from tests.http.servers import answering, endpoint, get

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def fetch_from(script, *, timeout_s=10.0, max_bytes=1000):
    """The response, or the kind and text of the failure."""
    async with endpoint(script) as origin:
        upstream = UpstreamPool(UpstreamSettings())
        try:
            return await fetch(upstream, origin, get(), timeout_s=timeout_s, max_bytes=max_bytes)
        except FetchError as error:
            return error.failure.kind, str(error)
        finally:
            await upstream.close()


def test_pieces_of_a_response_are_put_together(run):
    transcript = CHUNKED + b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"

    async def script(peer):
        await peer.request()
        for i in range(len(transcript)):
            await peer.send(transcript[i : i + 1])
            await asyncio.sleep(0)
        await peer.closed_by_client()

    result = run(fetch_from(script))

    assert result == Response(200, [(b"Transfer-Encoding", b"chunked")], b"abcd")


def test_error_status_is_a_response_like_any_other(run):
    result = run(fetch_from(answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")))

    assert result == Response(503, [(b"Content-Length", b"0")], b"")


@pytest.mark.parametrize(("size", "accepted"), [(1000, True), (1001, False)])
def test_body_over_the_limit_is_refused(run, size, accepted):
    result = run(fetch_from(answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)))

    if accepted:
        assert len(result.body) == 1000
    else:
        assert result == (ErrorKind.PROTOCOL, "protocol: over 1000 bytes")


def test_body_over_the_limit_closes_the_connection_while_it_still_comes(run):
    async def scenario():
        gone = asyncio.Event()

        async def script(peer):
            await peer.request()
            await peer.send(CHUNKED + b"3E9\r\n" + b"x" * 1001 + b"\r\n2\r\nab\r\n")
            await peer.closed_by_client()
            gone.set()

        async with endpoint(script) as origin:
            upstream = UpstreamPool(UpstreamSettings())
            with pytest.raises(FetchError, match="over 1000 bytes"):
                await fetch(upstream, origin, get(), timeout_s=10, max_bytes=1000)
            await gone.wait()
            await upstream.close()

    run(scenario())


def test_slow_response_is_given_up(run):
    async def script(peer):
        await peer.request()
        await peer.closed_by_client()

    result = run(fetch_from(script, timeout_s=0.02))

    assert result == (ErrorKind.TOTAL_TIMEOUT, "total-timeout: not complete within 0.02 s")


def test_failure_of_the_exchange_is_handed_on(run):
    async def script(peer):
        await peer.request()

    result = run(fetch_from(script))

    assert result == (ErrorKind.BROKEN, "broken: closed by the endpoint")


def test_reused_connection_that_closes_without_a_byte_is_replaced_once(run):
    async def scenario():
        connections = 0

        async def script(peer):
            nonlocal connections
            connections += 1
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % connections)
            if connections == 1:
                await peer.request()

        async with endpoint(script) as origin:
            upstream = UpstreamPool(UpstreamSettings())
            bodies = []
            for _ in range(2):
                response = await fetch(upstream, origin, get(), timeout_s=10, max_bytes=10)
                bodies.append(response.body)
            await upstream.close()
        return bodies

    assert run(scenario()) == [b"1", b"2"]


def test_cancelling_closes_the_connection(run):
    async def scenario():
        asked, gone = asyncio.Event(), asyncio.Event()

        async def script(peer):
            await peer.request()
            asked.set()
            await peer.closed_by_client()
            gone.set()

        async with endpoint(script) as origin:
            upstream = UpstreamPool(UpstreamSettings())
            task = asyncio.ensure_future(fetch(upstream, origin, get(), timeout_s=10, max_bytes=10))
            await asked.wait()
            task.cancel()
            await gone.wait()
            await upstream.close()
        return task.cancelled()

    assert run(scenario())


def test_what_is_sent_once_has_a_fresh_connection_and_no_repeat(run):
    async def scenario():
        requests = []

        async def script(peer):
            requests.append(await peer.request())
            if len(requests) < 3:
                await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % len(requests))
                await peer.closed_by_client()

        async with endpoint(script) as origin:
            upstream = UpstreamPool(UpstreamSettings())
            bodies = []
            for _ in range(2):
                response = await fetch(upstream, origin, get(), timeout_s=None, max_bytes=10, once=True)
                bodies.append(response.body)
            opened = upstream.stats().opened_total
            with pytest.raises(FetchError, match="broken"):
                await fetch(upstream, origin, get(), timeout_s=None, max_bytes=10, once=True)
            await upstream.close()
        return bodies, opened, len(requests)

    assert run(scenario()) == ([b"1", b"2"], 2, 3)
