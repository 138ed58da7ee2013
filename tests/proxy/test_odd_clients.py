"""Clients that use corners of HTTP, as bytes; docs/proxying.md says for each what it gets, and which test shows it."""

import gzip
import json
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from epp.compose import CoreOptions, compose
from epp.config import load_config
from epp.config.builtin import builtin_config
from epp.director.director import Limits
from epp.endpoints.types import EndpointSpec
from epp.http import UpstreamPool, UpstreamSettings
from epp.proxy import ProxySettings, Relay
from tests.proxy.harness import Door, post
from tests.proxy.upstream import ScriptedUpstream, json_answer

ROOT = Path(__file__).parents[2]
OK = json_answer(b"{}")
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello " * 200}]}).encode()


@asynccontextmanager
async def deciding() -> AsyncIterator[tuple[Door, ScriptedUpstream]]:
    """A front door with a real director, which reads bodies, and its one endpoint."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        core = compose(
            load_config(builtin_config(), "default.yaml"), CoreOptions(limits=Limits(inflated_bytes=100_000))
        )
        core.upkeep.sync_endpoints((EndpointSpec("http", "127.0.0.1", upstream.port),), 0.0)
        pool = UpstreamPool(UpstreamSettings())
        stack.push_async_callback(pool.close)
        relay = Relay(core.director, pool, ProxySettings())
        door = await stack.enter_async_context(Door(relay, on_drain_timeout=relay.shut_down))
        yield door, upstream


async def served(s, raw, answer=OK):
    """What the endpoint got and what the client got."""
    async with await s.client() as client:
        await client.send(raw)
        endpoint = await s.upstream.accept()
        request = await endpoint.request()
        await endpoint.send(answer)
        return request, await client.read_response()


@pytest.mark.parametrize(
    ("coding", "body"),
    [(b"gzip", gzip.compress(CHAT)), (b"deflate", zlib.compress(CHAT))],
    ids=["gzip", "deflate"],
)
async def test_a_compressed_body_is_read_for_routing_and_forwarded_as_it_came(coding, body):
    async with deciding() as (door, upstream), await door.client() as client:
        await client.send(post(body, extra=b"Content-Encoding: %b\r\n" % coding))
        endpoint = await upstream.accept()
        request = await endpoint.request()
        assert request.body == body
        assert request.values(b"content-encoding") == [coding]
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200


@pytest.mark.parametrize(
    ("coding", "body", "status", "code"),
    [
        (b"br", b"\x0b\x01\x80{}\x03", 415, "unsupported_content_encoding"),
        (b"zstd", b"(\xb5/\xfd", 415, "unsupported_content_encoding"),
        (b"gzip", CHAT, 400, "bad_request"),
        (b"gzip", gzip.compress(CHAT)[:-9], 400, "bad_request"),
        (b"gzip", gzip.compress(bytes(100_001)), 413, "payload_too_large"),
    ],
    ids=["br", "zstd", "not compressed", "cut", "bomb"],
)
async def test_a_compressed_body_that_cannot_be_read_is_refused(coding, body, status, code):
    async with deciding() as (door, upstream), await door.client() as client:
        await client.send(post(body, extra=b"Content-Encoding: %b\r\n" % coding))
        response = await client.read_response()
        assert (response.status, json.loads(response.body)["error"]["code"]) == (status, code)
        assert upstream.accepted == 0


async def test_a_compressed_answer_passes_as_it_came(stage):
    body = gzip.compress(b'{"usage":{"prompt_tokens":3,"completion_tokens":1}}')
    async with stage() as s:
        answer = json_answer(body, extra=b"content-encoding: gzip\r\nvary: accept-encoding\r\n")
        request, response = await served(s, post(extra=b"Accept-Encoding: gzip\r\n"), answer)
        assert request.values(b"accept-encoding") == [b"gzip"]
        assert response.body == body
        assert response.value(b"content-encoding") == b"gzip"
        assert (await s.director.ended()).usage is None


async def test_http10_needs_no_host_and_is_forwarded_as_http11(stage):
    async with stage() as s:
        request, response = await served(s, b"POST /v1/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        assert request.line == b"POST /v1/completions HTTP/1.1"
        assert request.values(b"x-forwarded-host") == []
        assert response.status == 200
        assert response.value(b"connection") == b"close"


async def test_a_chunked_body_reaches_the_endpoint_with_its_length_and_without_trailers(stage):
    raw = (
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n"
        b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nX-Checksum: 1\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n"
    )
    async with stage() as s:
        request, _ = await served(s, raw)
        assert request.body == b"abcde"
        assert request.values(b"content-length") == [b"5"]
        assert [request.values(name) for name in (b"trailer", b"x-checksum", b"transfer-encoding")] == [
            []
        ] * 3
        assert request.values(b"x-forwarded-for") == [b"127.0.0.1"]


async def test_trailers_of_an_answer_are_dropped(stage):
    answer = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"
    )
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(answer)
        head = await client.read_head()
        assert head.value(b"trailer") is None
        assert await client.read_exactly(12) == b"2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("value", [b"200-ok", b"100-continue, x"])
async def test_another_expectation_is_ignored(stage, value):
    async with stage() as s:
        request, response = await served(s, post(extra=b"Expect: " + value + b"\r\n"))
        assert request.values(b"expect") == []
        assert response.status == 200


async def test_a_body_that_came_with_its_expectation_is_taken(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post(extra=b"Expect: 100-continue\r\n"))
        endpoint = await s.upstream.accept()
        assert (await endpoint.request()).values(b"expect") == []
        await endpoint.send(OK)
        assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await client.read_response()).status == 200


async def test_an_expectation_of_http10_is_ignored(stage):
    """RFC 9110 section 10.1.1: such a client does not know interim answers."""
    raw = b"POST /v1/completions HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
    async with stage() as s:
        request, response = await served(s, raw)
        assert request.values(b"expect") == []
        assert response.status == 200


def named_tests() -> list[str]:
    page = (ROOT / "docs" / "proxying.md").read_text("utf-8")
    return re.findall(r"`(test_\w+\.py::test_\w+)`", page)


@pytest.mark.parametrize("name", named_tests())
def test_every_test_that_the_documentation_names_exists(name):
    file, _, function = name.partition("::")
    assert f"def {function}(" in (ROOT / "tests" / "proxy" / file).read_text("utf-8")


def test_every_odd_client_has_a_test():
    page = (ROOT / "docs" / "proxying.md").read_text("utf-8")
    rows = page.partition("## Odd clients")[2].partition("\n## ")[0]
    table = [line for line in rows.splitlines() if line.startswith("| ")][2:]
    assert len(table) >= 15
    assert [row for row in table if "::test_" not in row] == []
