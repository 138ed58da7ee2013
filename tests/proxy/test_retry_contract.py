"""The retry contract, one rule a test, with real connections; what the director decides is scripted."""

import json

import pytest

from epp.director import Target
from epp.errors import NoEndpointsError, SaturatedError
from epp.http import UpstreamSettings
from epp.proxy import bind_socket
from tests.proxy.harness import post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer

BUSY = b'{"error":{"message":"busy","type":"Service Unavailable","param":null,"code":503}}'
DRAINING = (
    b'{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError",'
    b'"param":null,"code":500}}'
)
BUG = b'{"error":{"message":"a bug","type":"InternalServerError","param":null,"code":500}}'
OK = b'{"id":"1"}'


@pytest.fixture
def refusing():
    """The target of a port where nobody listens; the bound socket keeps it free."""
    bound = bind_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    yield Target(f"127.0.0.1:{port}", "http", "127.0.0.1", port, 7)
    bound.close()


async def test_a_refused_connection_goes_to_the_next_endpoint(stage, refusing):
    async with stage() as s, await s.client() as client:
        s.director.targets.insert(0, refusing)
        await client.send(post(b"body"))
        endpoint = await s.upstream.accept()
        assert (await endpoint.request()).body == b"body"
        await endpoint.send(json_answer(OK))
        response = await client.read_response()
        assert (response.status, response.body) == (200, OK)
        assert response.value(b"x-epp-endpoint") == s.upstream.address.encode()
        [failure] = s.director.failures
        assert (failure.kind, failure.written) == ("connect", False)


async def test_refused_everywhere_is_502_with_the_reason(stage, refusing):
    async with stage(targets=0) as s, await s.client() as client:
        s.director.targets.append(refusing)
        await client.send(post())
        response = await client.read_response()
        assert response.status == 502
        assert response.value(b"x-llm-d-request-dropped-reason") == b"upstream-connect-failed"
        assert json.loads(response.body)["error"]["code"] == "upstream_connect_failed"
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 502)


async def test_a_connection_that_is_not_made_in_time_counts_as_refused(stage):
    async def never(*_args):
        import asyncio

        await asyncio.Event().wait()

    async with stage(upstream_settings=UpstreamSettings(connect_timeout_s=0.01)) as s:
        s.pool._dial = never
        async with await s.client() as client:
            await client.send(post())
            assert (await client.read_response()).status == 502
            assert s.director.failures[0].kind == "connect"


async def test_a_reused_connection_that_closes_without_a_byte_is_told_apart(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post(b"1"))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(OK))
        await client.read_response()
        s.director.targets += [s.upstream.target(), s.upstream.target(fresh=True)]
        await client.send(post(b"2"))
        await endpoint.request()
        endpoint.reset()
        again = await s.upstream.accept()
        assert (await again.request()).body == b"2"
        await again.send(json_answer(OK))
        assert (await client.read_response()).status == 200
        assert [failure.kind for failure in s.director.failures] == ["closed-reused"]


async def test_a_target_that_wants_a_fresh_connection_gets_one(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post(b"1"))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(OK))
        await client.read_response()
        s.director.targets.append(s.upstream.target(fresh=True))
        await client.send(post(b"2"))
        fresh = await s.upstream.accept()
        assert (await fresh.request()).body == b"2"
        await fresh.send(json_answer(OK))
        assert (await client.read_response()).status == 200


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_fresh_connection_that_breaks_before_a_byte_goes_to_the_next_endpoint(stage, how):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post(b"body"))
        first = await s.upstreams[0].accept()
        await first.request()
        getattr(first, how)()
        second = await s.upstreams[1].accept()
        assert (await second.request()).body == b"body"
        await second.send(json_answer(OK))
        response = await client.read_response()
        assert (response.status, response.body) == (200, OK)
        assert [(f.kind, f.written) for f in s.director.failures] == [("broken", True)]


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_stream_that_breaks_after_its_head_alone_goes_to_the_next_endpoint(stage, how):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post(b"body"))
        first = await s.upstreams[0].accept()
        await first.request()
        await first.send(SSE_HEAD)
        getattr(first, how)()
        second = await s.upstreams[1].accept()
        assert (await second.request()).body == b"body"
        await second.send(SSE_HEAD + chunk(b"data: 1\n\n") + LAST_CHUNK)
        response = await client.read_response()
        assert (response.status, response.body) == (200, b"data: 1\n\n")
        assert response.value(b"x-epp-endpoint") == s.upstreams[1].address.encode()
        assert [(f.kind, f.written) for f in s.director.failures] == [("broken", True)]


async def test_an_endpoint_that_does_not_speak_http_counts_as_broken_and_is_502(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        response = await client.read_response()
        assert response.status == 502
        assert response.value(b"x-llm-d-request-dropped-reason") == b"upstream-protocol-error"
        assert s.director.failures[0].kind == "broken"
        assert await endpoint.closed_by_router() is None


async def test_503_goes_to_the_next_endpoint(stage):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        first = await s.upstreams[0].accept()
        await first.request()
        await first.send(json_answer(BUSY, b"503 Service Unavailable"))
        second = await s.upstreams[1].accept()
        await second.request()
        await second.send(json_answer(OK))
        assert (await client.read_response()).body == OK
        assert s.director.calls == [
            ("open", "/v1/chat/completions"), ("prepare", 13), ("pick", None), ("next", "unavailable"),
            ("head", 200), ("first_byte", None), ("end", "complete"),
        ]  # fmt: skip


async def test_the_last_503_passes_unchanged(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(BUSY, b"503 Service Unavailable", b"x-vllm: 1\r\n"))
        response = await client.read_response()
        assert (response.status, response.body) == (503, BUSY)
        assert response.value(b"x-vllm") == b"1"
        assert response.value(b"x-llm-d-request-dropped-reason") is None
        ended = await s.director.ended()
        assert (ended.reason, ended.error, ended.response_bytes) == ("complete", None, len(BUSY))


async def test_an_earlier_503_passes_when_the_endpoint_after_it_refuses(stage, refusing):
    async with stage() as s, await s.client() as client:
        s.director.targets.append(refusing)
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(json_answer(BUSY, b"503 Service Unavailable"))
        response = await client.read_response()
        assert (response.status, response.body) == (503, BUSY)
        assert response.value(b"x-epp-endpoint") == s.upstream.address.encode()
        assert [failure.kind for failure in s.director.failures] == ["unavailable", "connect"]


async def test_an_earlier_503_passes_when_the_pool_has_no_connection_for_the_next(stage):
    settings = UpstreamSettings(max_connections_per_origin=1)
    upstreams = stage(upstream_settings=settings, endpoints=2)
    async with upstreams as s, await s.client() as occupant, await s.client() as client:
        s.director.targets = [s.upstreams[1].target(), s.upstreams[0].target(), s.upstreams[1].target()]
        await occupant.send(post())
        await (await s.upstreams[1].accept()).request()
        await client.send(post())
        endpoint = await s.upstreams[0].accept()
        await endpoint.request()
        await endpoint.send(json_answer(BUSY, b"503 Service Unavailable"))
        response = await client.read_response()
        assert (response.status, response.body) == (503, BUSY)
        assert [failure.kind for failure in s.director.failures] == ["unavailable"]


async def test_a_503_that_breaks_off_is_no_answer_to_pass_on(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 50\r\n\r\npart")
        endpoint.close()
        assert (await client.read_response()).status == 502
        assert s.director.failures[0].kind == "unavailable"


async def test_the_500_of_a_draining_engine_goes_to_the_next_endpoint(stage):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        first = await s.upstreams[0].accept()
        await first.request()
        await first.send(json_answer(DRAINING, b"500 Internal Server Error"))
        second = await s.upstreams[1].accept()
        await second.request()
        await second.send(json_answer(OK))
        assert (await client.read_response()).status == 200
        assert [failure.kind for failure in s.director.failures] == ["engine-down"]


async def test_a_500_that_breaks_off_counts_as_broken(stage):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        first = await s.upstreams[0].accept()
        await first.request()
        await first.send(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 500\r\n\r\npart")
        first.close()
        second = await s.upstreams[1].accept()
        await second.request()
        await second.send(json_answer(OK))
        assert (await client.read_response()).status == 200
        assert [failure.kind for failure in s.director.failures] == ["broken"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (b"500 Internal Server Error", BUG),
        (b"429 Too Many Requests", b'{"error":{"message":"slow down"}}'),
        (b"400 Bad Request", b'{"error":{"message":"x"}}'),
        (b"404 Not Found", b'{"error":{"message":"no model"}}'),
        (b"422 Unprocessable Entity", b'{"error":{"message":"x"}}'),
        (b"501 Not Implemented", b""),
    ],
    ids=lambda value: value[:3].decode(),
)
async def test_every_other_status_passes_unchanged(stage, status, body):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstreams[0].accept()
        await endpoint.request()
        await endpoint.send(json_answer(body, status))
        response = await client.read_response()
        assert (response.status, response.body) == (int(status[:3]), body)
        assert s.director.failures == []


async def test_a_503_with_a_body_of_more_than_64_kib_passes(stage):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstreams[0].accept()
        await endpoint.request()
        body = b"x" * 65_537
        await endpoint.send(json_answer(body, b"503 Service Unavailable"))
        response = await client.read_response()
        assert (response.status, response.body) == (503, body)
        assert s.director.failures == []


async def test_a_first_byte_timeout_is_504_and_is_never_sent_again(stage):
    settings = UpstreamSettings(first_byte_timeout_s=0.05)
    async with stage(upstream_settings=settings) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        response = await client.read_response()
        assert response.status == 504
        assert response.value(b"x-llm-d-request-dropped-reason") == b"upstream-timeout"
        assert [failure.kind for failure in s.director.failures] == ["first-byte-timeout"]
        await endpoint.closed_by_router()
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("timeout", 504)


async def test_an_endpoint_that_never_answers_does_not_hold_up_another(stage):
    async with stage(endpoints=2) as s, await s.client() as stuck, await s.client() as client:
        await stuck.send(post())
        await (await s.upstreams[0].accept()).request()
        await client.send(post())
        endpoint = await s.upstreams[1].accept()
        await endpoint.request()
        await endpoint.send(json_answer(OK))
        assert (await client.read_response()).status == 200


async def test_after_the_first_byte_nothing_is_sent_again(stage):
    async with stage(endpoints=2) as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstreams[0].accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + chunk(b"data: 1\n\n") + chunk(b"data: 2\n\n"))
        await client.read_head()
        await client.read_until(b"data: 2\n\n\r\n")
        endpoint.reset()
        assert await client.read_to_end() == b""
        assert (await s.director.ended()).reason == "upstream_aborted"
        assert s.director.failures == []
        assert s.upstreams[1].accepted == 0


async def test_a_pool_without_a_free_connection_is_503_and_no_mark_against_the_endpoint(stage):
    settings = UpstreamSettings(max_connections_per_origin=1)
    async with stage(upstream_settings=settings) as s, await s.client() as first, await s.client() as second:
        s.director.targets.append(s.upstream.target())
        await first.send(post())
        await (await s.upstream.accept()).request()
        await second.send(post())
        response = await second.read_response()
        assert response.status == 503
        assert response.value(b"x-llm-d-request-dropped-reason") == b"rejected-router-overloaded"
        assert response.value(b"retry-after") == b"1"
        assert s.director.failures == []
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 503)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (SaturatedError("full"), 429, b"rejected-saturated"),
        (NoEndpointsError("none"), 503, b"rejected-no-endpoints"),
    ],
)
async def test_what_the_director_refuses_is_answered_with_its_reason(stage, error, status, reason):
    async with stage() as s, await s.client() as client:
        s.director.pick_error = error
        await client.send(post(extra=b"x-request-id: abc\r\n"))
        response = await client.read_response()
        assert response.status == status
        assert response.value(b"x-llm-d-request-dropped-reason") == reason
        assert response.value(b"retry-after") == b"1"
        assert response.value(b"x-request-id") == b"abc"
        assert json.loads(response.body)["error"] == {
            "message": error.message, "type": error.type, "param": None, "code": error.code
        }  # fmt: skip
        ended = await s.director.ended()
        assert (ended.reason, ended.error) == ("rejected", error)
        assert s.upstream.accepted == 0


async def test_the_connection_survives_an_error_of_the_router(stage):
    async with stage() as s, await s.client() as client:
        s.director.pick_error = SaturatedError("full")
        await client.send(post())
        assert (await client.read_response()).status == 429
        s.director.pick_error = None
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD + LAST_CHUNK)
        assert (await client.read_response()).status == 200
