"""Pickers that stop, servers that are dead, and what a gateway's settings make of it."""

import asyncio
import contextlib

import pytest

from epp.config.load import load_config
from tests.e2e.kit import eventually, free_port
from tests.envoy.bootstrap import Setup

TWO_TOLD = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: header-based-testing-filter
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: header-based-testing-filter}
  - {pluginRef: max-score-picker}
"""
STREAM = {"model": "m", "prompt": "Hello", "stream": True}


def flags(port, backends, *more):
    endpoints = [word for server in backends for word in ("--endpoint", server.url)]
    ports = ("--port", "0", "--grpc-port", str(port), "--secure-serving=false")
    return ("serve", "--host", "127.0.0.1", *ports, *endpoints, *more)


@pytest.fixture
def beside(servers, envoy, spawn):
    """Servers, a picker as a process, and Envoy; `start` is called again for another picker."""

    async def start(setup=None, *, count=2, arguments=()):
        backends = await servers(count)
        port = free_port()

        async def picker():
            process = await spawn(*flags(port, backends, *arguments))
            await process.url()
            return process

        options = {"fail_open": True, "routing": "override"} | (setup or {})
        made = Setup(picker_port=port, endpoints=tuple(b.address for b in backends), **options)
        return backends, picker, await envoy(made)

    return start


async def ask(gate):
    return (await gate.client.post("/v1/completions", json={"model": "m", "prompt": "x"})).status_code


@pytest.mark.parametrize("body", ["BUFFERED", "FULL_DUPLEX_STREAMED"])
async def test_live_answers_survive_the_end_of_their_picker_and_the_next_one_serves(beside, body):
    backends, picker, gate = await beside({"fail_open": False, "request_body": body})
    first = await picker()

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        await eventually(lambda: _closed(gate, 1))
        first.process.kill()
        await first.ended()
        down = await ask(gate)
        await picker()
        up = await eventually(lambda: _once(gate))
        for server in backends:
            server.go.set()
        rest = [line async for line in lines if line]

    assert (down, up) == (500, 200)
    assert rest[-1] == "data: [DONE]"


async def _closed(gate, count):
    """The picker has ended so many of its streams."""
    return await gate.stat("http.ingress.ext_proc.streams_closed") >= count


async def _once(gate):
    status = await ask(gate)
    return status if status == 200 else None


async def test_an_open_gateway_serves_without_its_picker_by_its_own_policy(beside):
    # In full duplex Envoy answers 500 if a part of the body has left it before it knows.
    backends, _picker, gate = await beside({"request_body": "BUFFERED"})

    statuses = [await ask(gate) for _ in range(4)]

    assert statuses == [200] * 4
    assert [len(server.asked) for server in backends] == [2, 2]


async def test_a_closed_gateway_answers_500_without_its_picker(beside):
    _, _, gate = await beside({"fail_open": False})

    assert await ask(gate) == 500


async def test_a_picker_that_drains_is_taken_out_by_health_checks_and_finishes(beside):
    _, picker, gate = await beside({"health_check": True})
    process = await picker()
    await eventually(lambda: _healthy(gate, 1))

    process.signal(15)
    await eventually(lambda: _healthy(gate, 0))
    status = await ask(gate)

    assert status == 200
    assert await process.ended() == 0


async def _healthy(gate, count):
    return await gate.stat("cluster.picker.membership_healthy") == count


async def test_a_dead_first_choice_is_followed_by_the_next_of_the_list(gateway, servers):
    backends = await servers(2)
    gate = await gateway(
        backends=backends, routing="override", num_retries=2, config=load_config(TWO_TOLD, "test")
    )
    dead, alive = backends
    pin = {"test-epp-endpoint-selection": f"{dead.address},{alive.address}"}
    await gate.chat("warm", headers=pin)
    await dead.__aexit__()
    before = len(alive.asked)

    answers = [await gate.chat(f"{n}", headers=pin) for n in range(4)]

    assert [a.status_code for a in answers] == [200] * 4
    assert {a.headers["x-epp-endpoint"] for a in answers} == {alive.address}
    assert len(alive.asked) == before + 4
    state = (await gate.router.client.get("/debug/state?index=false")).json()["endpoints"]
    assert [e["requests"] for e in state] == [0, 0]


async def test_the_end_of_a_request_is_noticed_where_no_answer_is_shown(gateway):
    gate = await gateway(1, request_body="BUFFERED", response_headers="SKIP")
    body = asyncio.create_task(gate.envoy.client.post("/v1/completions", json=STREAM))
    [server] = gate.servers
    await eventually(lambda: server.live)

    body.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await body
    [decision] = await gate.router.decisions(1)
    state = (await gate.router.client.get("/debug/state?index=false")).json()["endpoints"]

    assert decision["reason"] == "unobserved"
    assert [e["requests"] for e in state] == [0]
