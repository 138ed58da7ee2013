"""Endpoints that break HTTP: the client gets a whole answer, an error or a cut one, and nobody gets another's.

Before and behind each hostile answer an innocent request is relayed to the same endpoint.
"""

import asyncio

import pytest

from epp.http import UpstreamSettings
from epp.proxy import ProxySettings
from tests.hostile.kit import statuses
from tests.proxy.harness import eventually, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer

OK = b"HTTP/1.1 200 OK\r\n"
EVIL = json_answer(b'{"evil":true}')
LIMITS = UpstreamSettings(max_head_bytes=4096, max_headers=50, first_byte_timeout_s=5.0)

# What the endpoint sends, before it goes silent; all of it is answered with 502.
NO_ANSWER = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a folded header": OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a line break in a value": OK + b"X: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
    "a null byte in a value": OK + b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "length and coding": OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n",
    "a coding that is none": OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "a status of no class": b"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
    "a status far above all": b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}",
    "a status of nothing": b"HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n",
    "a switch of protocols that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
    "a flood of interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "a flood of hints": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100,
    "a header that does not end": OK + b"X: " + b"a" * 10_000,
    "headers that do not end": OK + b"X: a\r\n" * 5_000,
    "a reason that does not end": b"HTTP/1.1 200 " + b"a" * 10_000,
    "too many headers": OK + b"X: a\r\n" * 51 + b"Content-Length: 0\r\n\r\n",
}

# What follows a begun body; the client gets "abc" and then a connection that is cut.
CUT = {
    "a chunk that is longer than it says": b"2\r\nxyz\r\n0\r\n\r\n",
    "a chunk size that is none": b"zz\r\n",
    "a chunk size above 64 bits": b"fffffffffffffffff\r\n",
    "a bare line feed": b"2\nxy\r\n0\r\n\r\n",
    "a chunk extension that does not end": b"2;" + b"a" * 10_000,
    "trailers that do not end": b"0\r\n" + b"X: a\r\n" * 5_000,
    "a length in a trailer": b"0\r\nContent-Length: 5\r\n\r\n",
}

# Whole answers with more behind them: they pass, and what is behind them reaches nobody.
FOLLOWED = {
    "a second answer": json_answer(b"{}") + EVIL,
    "garbage": json_answer(b"{}") + b"\x00\xff",
    "a second answer behind chunks": SSE_HEAD + chunk(b"{}") + LAST_CHUNK + EVIL,
    "a body behind 204": b"HTTP/1.1 204 No Content\r\n\r\n" + EVIL,
    "a body behind 304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nabcde" + EVIL,
    "a body that is longer than its length": OK + b"Content-Length: 2\r\n\r\n{}{}",
}


async def innocent(f):
    """A request on a connection of its own, and whether it was served by a fresh connection to the endpoint."""
    before = f.endpoint.accepted
    asking = asyncio.create_task(f.exchange(post(b"{}", extra=b"Connection: close\r\n")))
    endpoint = await f.endpoint.accept()
    request = await endpoint.request()
    await endpoint.send(json_answer(b'{"innocent":true}'))
    wire = await asking
    assert request.body == b"{}"
    assert statuses(wire) == [200]
    assert wire.endswith(b'{"innocent":true}')
    assert f.endpoint.accepted == before + 1
    return endpoint


@pytest.mark.parametrize("sent", NO_ANSWER.values(), ids=NO_ANSWER)
async def test_what_is_no_answer_is_502_and_its_connection_is_closed(open_front, sent):
    async with open_front(upstream_settings=LIMITS, scripted=True, targets=1) as f:
        asking = asyncio.create_task(f.exchange(post(extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        endpoint.writer.write(sent)
        wire = await asking
        assert statuses(wire) == [502]
        assert b'"code":"upstream_protocol_error"' in wire
        assert sent[-20:] not in wire
        f.director.targets.append(f.endpoint.target())
        await innocent(f)


@pytest.mark.parametrize("sent", CUT.values(), ids=CUT)
async def test_a_body_that_breaks_is_cut_after_what_came_before_it(open_front, sent):
    async with open_front(upstream_settings=LIMITS, scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post()))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        await endpoint.send(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await eventually(lambda: ("first_byte", None) in f.director.calls)
        endpoint.writer.write(sent)
        wire = await asking
        assert wire.startswith(b"HTTP/1.1 200 OK\r\n")
        body = wire.partition(b"\r\n\r\n")[2]
        assert body.startswith(b"3\r\nabc\r\n")
        assert not body.endswith(b"0\r\n\r\n")
        assert (await f.director.ended()).reason == "upstream_aborted"
        await innocent(f)


@pytest.mark.parametrize("sent", FOLLOWED.values(), ids=FOLLOWED)
async def test_what_follows_a_whole_answer_reaches_nobody(open_front, sent):
    async with open_front(upstream_settings=LIMITS, scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post(extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        await endpoint.send(sent)
        wire = await asking
        assert wire.startswith(sent[:12])
        assert b"evil" not in wire
        await endpoint.closed_by_router()
        await innocent(f)


async def test_an_answer_that_nobody_asked_for_closes_the_connection_it_came_on(open_front):
    async with open_front(scripted=True) as f:
        endpoint = await innocent(f)
        await endpoint.send(EVIL)
        await endpoint.closed_by_router()
        await innocent(f)


async def test_a_body_that_a_head_request_gets_is_not_taken_for_the_next_answer(open_front):
    async with open_front(scripted=True) as f:
        asking = asyncio.create_task(f.exchange(b"HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        await endpoint.send(EVIL)
        wire = await asking
        assert wire.endswith(b"\r\n\r\n")
        assert b"evil" not in wire
        await endpoint.closed_by_router()
        await innocent(f)


async def test_an_answer_before_the_end_of_a_large_body_leaves_no_half_request_behind(open_front):
    """The endpoint's connection is closed: what it has not read yet must not become its next request."""
    async with open_front(scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post(b"a" * 30_000_000, extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.reader.readuntil(b"\r\n\r\n")
        await endpoint.send(json_answer(b'{"error":"no"}', b"413 Too Large"))
        assert statuses(await asking) == [413]
        await innocent(f)


async def test_a_head_byte_by_byte_is_no_faster_than_its_timeout(open_front):
    limits = UpstreamSettings(first_byte_timeout_s=0.2)
    async with open_front(upstream_settings=limits, scripted=True, targets=1) as f:
        asking = asyncio.create_task(f.exchange(post(extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        endpoint.writer.write(b"HTTP/1.1 200 O")
        assert statuses(await asking) == [504]


async def test_a_body_that_stops_is_cut_at_the_idle_timeout(open_front):
    limits = UpstreamSettings(idle_timeout_s=0.1)
    async with open_front(upstream_settings=limits, scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post()))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n") + b"5\r\nab")
        wire = await asking
        assert wire.endswith(b"b\r\ndata: 1\n\nab\r\n")
        assert (await f.director.ended()).reason == "timeout"


async def test_a_million_tiny_chunks_of_an_answer_are_one_body(open_front):
    count = 1_000_000
    async with open_front(scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post(extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        await endpoint.send(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"a") * count + LAST_CHUNK)
        wire = await asking
        assert wire.endswith(LAST_CHUNK)
        assert (await f.director.ended()).response_bytes == count


@pytest.mark.parametrize(
    "name",
    [
        b"Connection", b"Keep-Alive", b"Proxy-Authenticate", b"Te", b"Upgrade", b"X-Epp-Endpoint",
        b"X-Epp-Decision", b"X-Request-Id", b"Date", b"Server",
    ],
)  # fmt: skip
async def test_an_endpoint_cannot_speak_for_the_router(open_front, name):
    async with open_front(scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post(extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        await endpoint.send(json_answer(b"{}", extra=name + b": forged\r\n"))
        assert b"forged" not in await asking


@pytest.mark.parametrize(
    "field",
    [
        b"X-Gateway-Destination-Endpoint: evil:1", b"X-Gateway-Destination-Endpoint-Served: evil:1",
        b"X-Prefiller-Host-Port: evil:1", b"X-Data-Parallel-Host-Port: evil:1", b"X-Encoder-Hosts-Ports: evil:1",
        b"X-Kv-Cache-Source-Host-Port: evil:1", b"X-Epp-Target: evil:1", b"X-Epp-Endpoint: evil:1",
        b"X-Llm-D-Target: evil:1", b"X-Forwarded-For: evil", b"X-Forwarded-Host: evil", b"Forwarded: for=evil",
        b"X-Real-Ip: evil", b"Proxy-Connection: evil", b"Proxy-Authorization: evil", b"Upgrade: evil",
    ],
)  # fmt: skip
async def test_a_client_cannot_speak_for_a_gateway(open_front, field):
    async with open_front() as f:
        assert statuses(await f.exchange(post(extra=field + b"\r\nConnection: close\r\n"))) == [200]
        [asked] = f.endpoint.asked
        assert [header for header in asked.headers if b"evil" in header[1]] == []


async def test_a_client_that_never_reads_is_cut_and_its_endpoint_let_go(open_front):
    async with open_front(ProxySettings(client_stall_timeout_s=0.2), scripted=True) as f:
        async with await f.door.client(receive_buffer=4096) as client:
            await client.send(post())
            endpoint = await f.endpoint.accept()
            await endpoint.request()
            writing = asyncio.create_task(endpoint.send(SSE_HEAD + chunk(b"a" * 30_000_000)))
            assert (await f.director.ended()).reason == "timeout"
            await asyncio.wait({writing}, timeout=10)
            assert writing.done()
            writing.exception()
        await innocent(f)


async def test_a_redirect_is_passed_on_and_not_followed(open_front):
    async with open_front(scripted=True) as f:
        asking = asyncio.create_task(f.exchange(post(extra=b"Connection: close\r\n")))
        endpoint = await f.endpoint.accept()
        await endpoint.request()
        there = b"http://127.0.0.1:%d/elsewhere" % f.endpoint.port
        await endpoint.send(json_answer(b"{}", b"307 Temporary Redirect", extra=b"location: %b\r\n" % there))
        wire = await asking
        assert statuses(wire) == [307]
        assert b"location: " + there in wire.lower()
        assert f.endpoint.accepted == 1
