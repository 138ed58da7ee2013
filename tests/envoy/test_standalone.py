"""`epp gateway`: Envoy in front, epp deciding over ext_authz."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.kit import eventually, free_port, new_client

BODY = {"model": "m", "prompt": "Hello"}
STREAM = BODY | {"stream": True}


class Standalone:
    """A running `epp gateway`, with clients of both ports."""

    def __init__(self, process, client, admin):
        self.process = process
        self.client = client
        self.admin = admin

    async def ask(self, prompt="Hello", **more):
        return await self.client.post("/v1/completions", json=BODY | {"prompt": prompt}, **more)

    async def decisions(self, count):
        async def ended():
            found = (await self.admin.get(f"/debug/decisions?limit={count}")).json()
            return found[::-1] if len(found) == count else []

        return await eventually(ended)

    async def in_flight(self):
        state = (await self.admin.get("/debug/state?index=false")).json()["endpoints"]
        return sum(e["requests"] for e in state)


@pytest.fixture
def standalone(spawn, stack, servers):
    async def start(count=2, *, backends=None, arguments=()):
        backends = await servers(count) if backends is None else backends
        endpoints = [word for server in backends for word in ("--endpoint", server.url)]
        ports = ("--port", "0", "--admin-port", str(free_port()), "--concurrency", "1")
        process = await spawn("gateway", "--host", "127.0.0.1", *ports, *endpoints, *arguments)
        client = await stack.enter_async_context(new_client(await process.url()))
        admin = await stack.enter_async_context(new_client(await process.url("admin_url")))
        gate = Standalone(process, client, admin)
        await eventually(lambda: known(gate))
        return backends, gate

    return start


async def known(gate):
    state = (await gate.admin.get("/debug/state?index=false")).json()["endpoints"]
    return all(e["models"] and e["fresh"] for e in state)


async def test_requests_are_relayed_to_the_pick_and_counted_with_usage(standalone):
    backends, gate = await standalone()
    text = "The same beginning. " * 200
    forged = {"x-gateway-destination-endpoint": "127.0.0.1:1", "x-epp-explain": "1"}

    answers = [await gate.ask(f"{text} {n}", headers=forged) for n in range(4)]
    decisions = await gate.decisions(4)

    assert [a.status_code for a in answers] == [200] * 4
    assert len({a.json()["server"] for a in answers}) == 1
    assert all(a.headers["x-epp-endpoint"] == a.json()["server"] for a in answers)
    assert [d["endpoint"] for d in decisions] == [a.json()["server"] for a in answers]
    assert [d["request_id"] for d in decisions] == [a.headers["x-request-id"] for a in answers]
    assert [(d["reason"], d["completion_tokens"]) for d in decisions] == [("complete", 2)] * 4
    [asked] = [server.asked for server in backends if server.asked]
    assert not set(forged) & set(asked[0].headers)
    assert "x-epp-exchange" not in asked[0].headers
    assert json.loads(asked[0].body)["prompt"] == f"{text} 0"
    assert await gate.in_flight() == 0


async def test_streams_are_relayed_as_they_come_and_end_with_usage(standalone):
    [server], gate = await standalone(1)

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        first = await anext(lines)
        held = await gate.in_flight()
        server.go.set()
        rest = [line async for line in lines if line]
    [decision] = await gate.decisions(1)

    assert json.loads(first.removeprefix("data: "))["n"] == 0
    assert rest[-1] == "data: [DONE]"
    assert held == 1
    assert (decision["reason"], decision["completion_tokens"]) == ("complete", 3)
    assert "first_byte_ms" in decision


async def test_refusals_reach_the_client_and_epps_own_routes_are_served(standalone):
    [server], gate = await standalone(1, arguments=("--max-inflight-per-endpoint", "1"))

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        await anext(answer.aiter_lines())
        full = await gate.ask()
        bad = await gate.client.post("/v1/completions", content=b"{")
        admin = await gate.client.post("/sleep")
        metrics = await gate.client.get("/metrics")
        ready, models = await gate.client.get("/readyz"), await gate.client.get("/v1/models")
        server.go.set()

    assert (full.status_code, full.headers["x-llm-d-request-dropped-reason"]) == (429, "rejected-saturated")
    assert full.json()["error"]["code"] == "saturated"
    assert full.headers["retry-after"] == "1"
    assert bad.status_code == 400
    assert (admin.status_code, metrics.status_code) == (403, 403)
    assert (ready.status_code, models.json()["data"][0]["id"]) == (200, "m")
    assert (await gate.admin.get("/metrics")).status_code == 200
    assert [asked.target for asked in server.asked] == ["/v1/completions"]


async def test_a_dead_endpoint_is_passed_over_while_nothing_was_sent(standalone):
    backends, gate = await standalone(2)
    await backends[0].__aexit__()

    answers = [await gate.ask(f"{n}") for n in range(4)]

    assert {a.json()["server"] for a in answers} == {backends[1].address}
    await gate.decisions(4)
    assert await gate.in_flight() == 0


async def test_endpoints_that_come_are_used(standalone, servers, tmp_path):
    first, second = await servers(2)
    file = tmp_path / "endpoints.yaml"
    file.write_text(f"endpoints:\n- {first.url}\n")
    _, gate = await standalone(backends=[], arguments=("--discovery-file", str(file)))

    before = await gate.ask()
    (tmp_path / "new").write_text(f"endpoints:\n- {second.url}\n")
    (tmp_path / "new").replace(file)
    await eventually(lambda: _served_by(gate, second))

    assert before.json()["server"] == first.address


async def _served_by(gate, server):
    return (await gate.ask()).json().get("server") == server.address


async def test_a_client_that_leaves_ends_its_request(standalone):
    [server], gate = await standalone(1)
    asking = asyncio.create_task(gate.client.post("/v1/completions", json=STREAM))
    await eventually(lambda: server.live)

    asking.cancel()
    [decision] = await gate.decisions(1)

    assert decision["reason"] == "client_disconnected"
    assert await gate.in_flight() == 0


async def test_a_drain_lets_streams_end(standalone):
    [server], gate = await standalone(1)

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        gate.process.signal(signal.SIGTERM)
        await eventually(lambda: _not_ready(gate))
        server.go.set()
        rest = [line async for line in lines if line]

    assert rest[-1] == "data: [DONE]"
    assert await gate.process.ended() == 0


async def _not_ready(gate):
    return (await gate.admin.get("/readyz")).status_code == 503


async def test_envoy_does_not_outlive_epp(standalone):
    _, gate = await standalone(1)
    children = _children(gate.process.process.pid)

    gate.process.process.kill()
    await gate.process.ended()

    assert len(children) == 1
    await eventually(lambda: not Path(f"/proc/{children[0]}").exists())


async def test_epp_ends_when_envoy_does(standalone):
    _, gate = await standalone(1)

    os.kill(_children(gate.process.process.pid)[0], signal.SIGKILL)

    assert await gate.process.ended() == 1
    assert "epp: Envoy ended with status -9" in gate.process.stderr


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_port_that_is_taken_ends_with_1(servers, spawn):
    [server] = await servers(1)
    port = server.address.rpartition(":")[2]
    admin = ("--admin-port", str(free_port()))
    process = await spawn("gateway", "--host", "127.0.0.1", "--port", port, *admin, "--endpoint", server.url)

    assert await process.ended() == 1
    assert "Envoy ended with status" in process.stderr
