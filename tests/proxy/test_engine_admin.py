"""Administration of engines: one endpoint or all, never twice, and what was changed is told."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from epp.compose import CoreOptions, compose
from epp.config.builtin import builtin_config
from epp.config.load import load_config
from epp.director.administration import EngineChange
from epp.endpoints.spec import parse_endpoint
from epp.http import UpstreamPool, UpstreamSettings
from epp.proxy import EngineAdmin, ProxySettings, Relay, bind_socket
from epp.security import KeyGate, KeyRing, parse_key
from tests.proxy.harness import Door, eventually, post
from tests.proxy.upstream import ScriptedUpstream, json_answer

EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
NOT_FOUND = json_answer(b'{"detail":"Not Found"}', b"404 Not Found")


@dataclass
class Stage:
    door: Door
    upstreams: list[ScriptedUpstream]
    records: list
    changes: list

    async def client(self):
        return await self.door.client()


@asynccontextmanager
async def stage(count=2, settings=None, upstream_settings=None, more=(), gate=None):
    settings = settings or ProxySettings()
    records, changes = [], []
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(ScriptedUpstream()) for _ in range(count)]
        core = compose(load_config(builtin_config(), "t"), CoreOptions(seed=1), observers=[records.append])
        specs = [
            parse_endpoint(f"http://{address}") for address in [u.address for u in upstreams] + list(more)
        ]
        core.upkeep.sync_endpoints(specs, 0.0)
        pool = UpstreamPool(upstream_settings or UpstreamSettings())
        stack.push_async_callback(pool.close)
        around = Relay(core.director, pool, settings, gate=gate).around
        app = EngineAdmin(around, lambda *change: changes.append(change))
        door = await stack.enter_async_context(Door(app, settings))
        yield Stage(door, upstreams, records, changes)


def sleep(extra=b"", path=b"/sleep?level=2&mode=wait"):
    return post(b"", path, extra)


async def serve(upstream, answer=EMPTY):
    """Answer one request; what was asked."""
    connection = await upstream.accept()
    request = await connection.request()
    await connection.send(answer)
    return request


def joint(response):
    return response.status, {
        a: (r["status"], r["body"]) for a, r in json.loads(response.body)["results"].items()
    }


async def test_the_target_alone_gets_the_request_with_its_query_and_without_the_header():
    async with stage() as s, await s.client() as client:
        await client.send(
            sleep(b"x-epp-target: %b\r\nAuthorization: Bearer k\r\n" % s.upstreams[1].address.encode())
        )
        request = await serve(s.upstreams[1], json_answer(b'{"slept":true}'))
        response = await client.read_response()

        assert request.line == b"POST /sleep?level=2&mode=wait HTTP/1.1"
        assert request.values(b"x-epp-target") == []
        assert request.values(b"authorization") == [b"Bearer k"]
        assert (response.status, response.body) == (200, b'{"slept":true}')
        assert response.value(b"x-epp-endpoint") == s.upstreams[1].address.encode()
        assert s.upstreams[0].accepted == 0
        assert s.changes == [(s.upstreams[1].address, EngineChange.ALL_TIERS)]
        await eventually(lambda: s.records)
        [record] = s.records
        assert (record.path, record.status, record.reason, record.response_bytes) == (
            "/sleep",
            200,
            "complete",
            14,
        )


async def test_without_a_target_all_are_told_at_once_and_the_answer_has_what_each_said():
    async with stage() as s, await s.client() as client:
        await client.send(sleep(path=b"/reset_prefix_cache"))
        # Both have the request before one of them answers.
        connections = [await upstream.accept() for upstream in s.upstreams]
        for connection in connections:
            await connection.request()
        await connections[1].send(json_answer(b'{"success":true}'))
        await connections[0].send(EMPTY)
        response = await client.read_response()

        first, second = (upstream.address for upstream in s.upstreams)
        assert joint(response) == (200, {first: (200, None), second: (200, {"success": True})})
        assert response.value(b"content-type") == b"application/json"
        assert response.value(b"x-request-id")
        assert sorted(s.changes) == sorted([(first, EngineChange.GPU_TIER), (second, EngineChange.GPU_TIER)])


@pytest.mark.parametrize(
    "answers, status",
    [
        ([EMPTY, EMPTY], 200),
        ([json_answer(b"{}", b"202 Accepted"), EMPTY], 200),
        ([NOT_FOUND, NOT_FOUND], 404),
        ([NOT_FOUND, EMPTY], 502),
        ([NOT_FOUND, json_answer(b"{}", b"500 Oops")], 502),
    ],
)
async def test_the_joint_status_is_200_or_what_all_say_or_502(answers, status):
    async with stage() as s, await s.client() as client:
        await client.send(sleep())
        await asyncio.gather(*map(serve, s.upstreams, answers))
        assert (await client.read_response()).status == status


async def test_an_endpoint_that_cannot_be_reached_does_not_keep_the_others_from_being_told():
    bound = bind_socket("127.0.0.1", 0)
    closed = f"127.0.0.1:{bound.getsockname()[1]}"
    async with stage(1, more=[closed]) as s, await s.client() as client:
        await client.send(sleep())
        await serve(s.upstreams[0])
        status, results = joint(await client.read_response())

        assert status == 502
        assert results[s.upstreams[0].address] == (200, None)
        assert results[closed][0] == 502
        assert results[closed][1]["error"]["code"] == "upstream_connect_failed"
        assert s.changes == [(s.upstreams[0].address, EngineChange.ALL_TIERS)]
    bound.close()


async def test_what_may_have_been_done_is_never_sent_again_and_counts_as_done():
    async with stage(1) as s, await s.client() as client:
        for _ in range(2):
            await client.send(sleep(b"x-epp-target: %b\r\n" % s.upstreams[0].address.encode()))
            connection = await s.upstreams[0].accept()
            await connection.request()
            connection.close()
            response = await client.read_response()
            assert response.status == 502
            assert response.value(b"x-epp-endpoint") is None
        assert s.upstreams[0].accepted == 2
        assert s.changes == [(s.upstreams[0].address, EngineChange.ALL_TIERS)] * 2


async def test_a_refusal_of_the_engine_changes_nothing():
    async with stage(1) as s, await s.client() as client:
        await client.send(sleep())
        await serve(s.upstreams[0], NOT_FOUND)
        await client.read_response()
        assert s.changes == []


async def test_every_request_has_a_connection_of_its_own():
    async with stage(1) as s, await s.client() as client:
        for _ in range(2):
            await client.send(sleep(path=b"/wake_up"))
            await serve(s.upstreams[0])
            await client.read_response()
        assert s.upstreams[0].accepted == 2
        assert s.changes == []


async def test_an_adapter_is_loaded_everywhere_whatever_the_target():
    body = b'{"lora_name":"a","lora_path":"/a"}'
    async with stage() as s, await s.client() as client:
        target = b"x-epp-target: %b\r\n" % s.upstreams[0].address.encode()
        await client.send(post(body, b"/v1/load_lora_adapter", target))
        text = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\xff"
        requests = await asyncio.gather(*(serve(upstream, text) for upstream in s.upstreams))
        status, results = joint(await client.read_response())

        assert [request.body for request in requests] == [body, body]
        assert (status, list(results.values())) == (200, [(200, "ok\ufffd"), (200, "ok\ufffd")])
        assert [change for _, change in s.changes] == [EngineChange.MODELS] * 2


async def test_an_unknown_target_is_404_and_nobody_is_told():
    async with stage() as s, await s.client() as client:
        await client.send(sleep(b"x-epp-target: 10.9.9.9:1\r\n"))
        response = await client.read_response()
        assert response.status == 404
        assert "'10.9.9.9:1'" in json.loads(response.body)["error"]["message"]
        assert [upstream.accepted for upstream in s.upstreams] == [0, 0]
        assert [(record.error, record.reason) for record in s.records] == [("endpoint_not_found", "rejected")]


async def test_a_body_over_the_limit_is_413():
    async with stage(settings=ProxySettings(max_request_bytes=10)) as s, await s.client() as client:
        await client.send(post(b"x" * 11, b"/collective_rpc"))
        assert (await client.read_response()).status == 413


async def test_a_client_that_leaves_before_its_body_is_here_is_only_noted():
    async with stage() as s, await s.client() as client:
        await client.send(b"POST /collective_rpc HTTP/1.1\r\nHost: r\r\nContent-Length: 5\r\n\r\nab")
        await eventually(lambda: s.door.connections and s.door.connections[0].busy)
        client.leave()
        await eventually(lambda: s.records)
        assert s.records[0].reason == "client_disconnected"


async def test_what_has_begun_is_carried_to_its_end_though_the_client_has_left():
    async with stage(1) as s, await s.client() as client:
        await client.send(sleep())
        connection = await s.upstreams[0].accept()
        await connection.request()
        client.leave()
        await eventually(lambda: not s.door.connections)
        await connection.send(EMPTY)
        await eventually(lambda: s.records)
        assert s.changes == [(s.upstreams[0].address, EngineChange.ALL_TIERS)]


async def test_our_own_connection_limit_is_told_as_such():
    limit = UpstreamSettings(max_connections_per_origin=1)
    async with stage(1, upstream_settings=limit) as s, await s.client() as client, await s.client() as other:
        await client.send(sleep())
        connection = await s.upstreams[0].accept()
        await connection.request()
        await other.send(sleep())
        _, results = joint(await other.read_response())
        assert results[s.upstreams[0].address][1]["error"]["code"] == "router_overloaded"
        await connection.send(EMPTY)
        await client.read_response()


async def test_a_fault_of_our_own_is_500(caplog):
    def faulty(*_change):
        raise RuntimeError

    async with stage(1) as s, await s.client() as client:
        s.door._app._on_change = faulty
        await client.send(sleep())
        await serve(s.upstreams[0])
        response = await client.read_response()
        assert (response.status, json.loads(response.body)["error"]["code"]) == (500, "internal_error")
        assert "request" in caplog.text


async def test_administration_needs_a_key_where_clients_need_one():
    gate = KeyGate(KeyRing((parse_key("ops=sesame-sesame-sesame"),)))
    async with stage(1, gate=gate) as s, await s.client() as client, await s.client() as other:
        await client.send(sleep())
        refused = await client.read_response()
        await other.send(sleep(b"Authorization: Bearer sesame-sesame-sesame\r\n"))
        await serve(s.upstreams[0])

        assert (refused.status, (await other.read_response()).status) == (401, 200)
        assert s.upstreams[0].accepted == 1
        assert [(r.error, r.reason) for r in s.records] == [
            ("invalid_api_key", "rejected"),
            (None, "complete"),
        ]
