"""Limits, shedding by priority and session tokens, from flag to wire."""

import asyncio
import contextlib

import pytest

from epp.config import load_config
from epp.flow.admission import Objective
from tests.e2e.kit import eventually

HANG = {"x-sim-fault": "hang"}
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
BUSY_AT_1 = load_config(
    HEAD
    + """\
plugins:
- type: queue-scorer
- type: concurrency-detector
  parameters: {maxConcurrency: 1}
flowControl:
  saturationDetector: {pluginRef: concurrency-detector}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}]
"""
)
STICKY = load_config(HEAD + "plugins:\n- type: session-affinity-scorer\n")


@contextlib.asynccontextmanager
async def one_in_flight(router):
    """A request that the endpoint never answers, for as long as this is entered."""
    waiting = asyncio.create_task(router.chat(headers=HANG))

    async def there():
        return await router.sample("epp_inflight_requests") == 1

    try:
        await eventually(there)
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_when_every_endpoint_is_full_the_next_request_gets_429_and_later_ones_are_served(fleet, route):
    router = await route(*await fleet(1), max_inflight_per_endpoint=1)

    async with one_in_flight(router):
        refused = await router.chat()

    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["x-llm-d-request-dropped-reason"] == "rejected-saturated"
    assert refused.json()["error"]["code"] == "saturated"
    assert refused.json()["error"]["type"] == "rate_limit_error"

    async def served():
        return (await router.chat()).status_code == 200

    await eventually(served)
    assert await router.sample("epp_requests_dropped_total", reason="rejected-saturated") >= 1


async def test_requests_beyond_the_routers_own_limit_get_503(fleet, route):
    router = await route(*await fleet(2), max_requests=1)

    async with one_in_flight(router):
        refused = await router.chat()

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.headers["x-llm-d-request-dropped-reason"] == "rejected-router-overloaded"
    assert refused.json()["error"]["code"] == "router_overloaded"


@pytest.mark.parametrize("header", ["x-llm-d-inference-objective", "x-gateway-inference-objective"])
async def test_only_requests_of_negative_priority_are_shed_while_the_pool_is_saturated(fleet, route, header):
    [server] = await fleet(1)
    router = await route(server, config=BUSY_AT_1, objective=(Objective("batch", -1), Objective("chat", 5)))
    assert (await router.chat(headers={header: "batch"})).status_code == 200

    async with one_in_flight(router):
        shed = await router.chat(headers={header: "batch"})
        kept = [await router.chat(headers=headers) for headers in ({header: "chat"}, {header: "?"}, {})]
        saturation = await router.sample("llm_d_epp_flow_control_pool_saturation", inference_pool="default")

    assert (shed.status_code, shed.headers["retry-after"]) == (429, "1")
    assert shed.headers["x-llm-d-request-dropped-reason"] == "rejected-saturated"
    assert [answer.status_code for answer in kept] == [200, 200, 200]
    assert saturation == 1.0
    assert await router.sample("epp_requests_dropped_total", priority="-1") == 1
    assert await router.sample("llm_d_epp_request_error_total", error_code="saturated", priority="-1") == 1
    assert await router.sample("llm_d_epp_request_total", priority="5") == 1
    assert header.encode() not in {name for seen in server.core.seen for name, _ in seen.headers}


async def test_a_session_token_leads_back_to_the_endpoint_that_gave_it(fleet, route):
    router = await route(*await fleet(3), config=STICKY)

    first = await router.chat()
    token = {"x-session-token": first.headers["x-session-token"]}
    answers = [await router.chat(f"turn {turn}", headers=token) for turn in range(6)]

    assert {answer.headers["x-epp-endpoint"] for answer in answers} == {first.headers["x-epp-endpoint"]}
    assert {answer.headers["x-session-token"] for answer in answers} == {token["x-session-token"]}
