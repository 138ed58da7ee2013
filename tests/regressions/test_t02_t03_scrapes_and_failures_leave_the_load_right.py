"""T2: health checks set the counts of load to zero. T3: counts leaked, or went below zero and won every pick."""

import asyncio
import contextlib

import httpx

from epp.config import load_config
from epp.config.settings import HealthSettings, MetricsSettings
from tests.e2e.kit import chat, eventually
from tests.regressions.kit import first_call, in_flight

PREFIX_FIRST = load_config("""
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
- type: active-request-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: prefix-cache-scorer, weight: 9}
  - {pluginRef: active-request-scorer, weight: 1}
""")
HOT = "The same prompt again and again. " * 40


async def test_t02_ten_open_streams_are_ten_after_every_scrape_and_new_requests_go_elsewhere(scripted, route):
    endpoints = await scripted(4)
    router = await route(
        *endpoints, config=PREFIX_FIRST, slow_start_s=0.0, metrics=MetricsSettings(refresh_interval_s=0.05)
    )
    await router.know("m")

    async def ask(prompt):
        return await router.client.post("/v1/completions", json={"model": "m", "prompt": prompt})

    hot = [asyncio.create_task(ask(HOT))]
    call, others = await first_call(endpoints)
    [busy] = [endpoint for endpoint in endpoints if endpoint not in others]
    calls = [call]
    for _ in range(9):
        hot.append(asyncio.create_task(ask(HOT)))
        calls.append(await busy.call())
    for call in calls:
        await call.stream(b"data: 1\n\n")
    loads = set()
    for _ in range(10):
        scrapes = len(busy.probes())
        await eventually(lambda scrapes=scrapes: len(busy.probes()) > scrapes)
        loads.add(await router.sample("epp_endpoint_inflight_requests", endpoint=busy.address))
    new = [asyncio.create_task(ask(f"{number} is another prompt. " * 40)) for number in range(20)]
    for _ in new:
        await (await first_call(others))[0].answer()
    went = {answer.headers["x-epp-endpoint"] for answer in await asyncio.gather(*new)}
    for call in calls:
        await call.end()
    await asyncio.gather(*hot)

    assert loads == {10.0}
    assert went == {endpoint.address for endpoint in others}
    assert await in_flight(router) == 0


async def test_t03_after_streams_that_were_cut_reset_refused_and_repeated_nothing_is_in_flight(fleet, route):
    servers = await fleet(2)
    router = await route(*servers, health=HealthSettings(eject_after=1000))
    await router.know("sim/llama-8b")
    for fault in ("reset-after=1", "status=500", "reset-before-head", "truncate=2"):
        for server in servers:
            server.core.faults.add(fault, times=4)
        for _ in range(8):
            # Some answers are cut: what the client's library makes of that is its own affair.
            with contextlib.suppress(httpx.TransportError):
                async with router.client.stream(
                    "POST", "/v1/chat/completions", json=chat(stream=True)
                ) as answer:
                    async for _ in answer.aiter_raw():
                        pass
        for server in servers:
            server.core.faults.clear()
    for _ in range(8):
        async with router.client.stream(
            "POST", "/v1/chat/completions", json=chat(stream=True, max_tokens=400)
        ):
            pass  # the client leaves

    async def nothing():
        gauges = [
            v
            for name in ("requests", "uncached_tokens")
            for _, v in await router.samples(f"epp_endpoint_inflight_{name}")
        ]
        assert min(gauges) >= 0
        return set(gauges) == {0.0} and await in_flight(router) == 0

    await eventually(nothing)
    await eventually(lambda: sum(server.core.inference_in_flight for server in servers) == 0)
