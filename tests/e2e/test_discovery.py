"""Endpoints come, change and go while requests run: files and DNS on real sockets."""

import asyncio
import json
import signal
from dataclasses import replace

import pytest

from epp.config.settings import DiscoverySettings
from epp.discovery.dnspython_resolver import DnspythonResolver
from epp.endpoints.dns_name import parse_dns_name
from tests.discovery.dns_server import dns_server
from tests.e2e.kit import LONG_TEXT, chat, eventually, free_port

OFTEN = {"file_interval_s": 0.02}


@pytest.fixture
def endpoint_file(tmp_path):
    """Puts an endpoint file in the place of the last one; returns its path."""
    path = tmp_path / "endpoints.yaml"

    def put(*endpoints):
        (tmp_path / "next").write_text(json.dumps([getattr(e, "url", e) for e in endpoints]))
        (tmp_path / "next").rename(path)
        return str(path)

    return put


async def addresses(router):
    return sorted((await router.client.get("/readyz")).json()["detail"]["endpoints"])


async def settled(router, *servers):
    """The router knows exactly these servers."""

    async def same():
        return await addresses(router) == sorted(server.address for server in servers)

    await eventually(same)


async def steady(router, results, stop):
    """One request after the other; collects status and endpoint."""
    number = 0
    while not stop.is_set():
        number += 1
        answer = await router.chat(f"{number % 7} {LONG_TEXT[:2000]}")
        results.append((answer.status_code, answer.headers.get("x-epp-endpoint")))


async def test_edits_of_the_file_add_and_remove_endpoints_and_no_request_notices(fleet, route, endpoint_file):
    one, two, three = await fleet(3)
    router = await route(discovery=DiscoverySettings(file=endpoint_file(one, two), **OFTEN), slow_start_s=0.0)
    await settled(router, one, two)
    stop, results = asyncio.Event(), []
    clients = [asyncio.create_task(steady(router, results, stop)) for _ in range(4)]
    for members in ((one, two, three), (two, three), (three,), (one, three)):
        endpoint_file(*members)
        await settled(router, *members)
        before = len(results)
        await eventually(lambda before=before: len(results) > before + 12)
        # Requests that were under way at the change are over; these were picked after it.
        assert {endpoint for _, endpoint in results[before + 8 :]} <= {m.address for m in members}
    stop.set()
    await asyncio.gather(*clients)

    assert {status for status, _ in results} == {200}
    assert {endpoint for _, endpoint in results} == {one.address, two.address, three.address}


async def test_a_stream_to_an_endpoint_that_is_removed_ends_as_if_nothing_had_happened(
    fleet, route, endpoint_file
):
    one, two = await fleet(2, answer_tokens=(40, 40), time_scale=2.0)
    router = await route(discovery=DiscoverySettings(file=endpoint_file(one), **OFTEN))
    await router.know("sim/llama-8b")
    body = chat("Tell a long story.", stream=True, max_tokens=40)
    async with router.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        endpoint_file(two)
        await settled(router, two)
        assert (await router.chat("Hello")).headers["x-epp-endpoint"] == two.address
        rest = [line async for line in lines if line]

    assert answer.headers["x-epp-endpoint"] == one.address
    assert rest[-1] == "data: [DONE]"
    assert len(rest) >= 40
    assert await router.sample("epp_inflight_requests") == 0.0


async def test_an_endpoint_that_comes_back_begins_cold(fleet, route, endpoint_file):
    one, two = await fleet(2)
    router = await route(discovery=DiscoverySettings(file=endpoint_file(one), **OFTEN), slow_start_s=0.0)
    await router.know("sim/llama-8b")
    await router.chat(LONG_TEXT)
    assert await router.sample("epp_index_entries", endpoint=one.address) > 0
    endpoint_file(two)
    await settled(router, two)
    endpoint_file(one, two)
    await settled(router, one, two)

    assert await router.sample("epp_index_entries", endpoint=one.address) == 0.0


async def test_a_faulty_file_changes_nothing_and_is_told_everywhere(
    fleet, route, endpoint_file, tmp_path, caplog
):
    [one] = await fleet(1)
    file = endpoint_file(one)
    router = await route(discovery=DiscoverySettings(file=file, **OFTEN))
    await settled(router, one)
    endpoint_file("http://10.0.0.1:8000/v1")
    labels = {"source": f"file {file}"}

    async def told():
        return await router.sample("epp_discovery_last_look_success", **labels) == 0.0

    await eventually(told)
    ready = await router.client.get("/readyz")

    assert ready.status_code == 200
    assert (
        "the endpoint goes on after the port"
        in ready.json()["detail"]["discovery"][f"file {file}"]["problem"]
    )
    assert await addresses(router) == [one.address]
    assert await router.sample("epp_discovery_failures_total", **labels) == 1.0
    assert await router.sample("epp_discovery_endpoints", **labels) == 1.0
    endpoint_file(one)
    await eventually(lambda: _not(told()))


async def _not(condition):
    return not await condition


async def test_without_any_endpoint_it_starts_and_says_why(fleet, route, endpoint_file, tmp_path):
    [one] = await fleet(1)
    router = await route(discovery=DiscoverySettings(file=str(tmp_path / "endpoints.yaml"), **OFTEN))
    ready = await router.client.get("/readyz")
    answer = await router.chat()

    assert ready.status_code == 503
    assert ready.json()["reasons"] == ["no endpoint is known; detail says what discovery found"]
    [source] = ready.json()["detail"]["discovery"].values()
    assert source["endpoints"] is None
    assert source["problem"].endswith("cannot be read: No such file or directory")
    assert (answer.status_code, answer.headers["x-llm-d-request-dropped-reason"]) == (
        503,
        "rejected-no-endpoints",
    )
    endpoint_file(one)
    await settled(router, one)

    assert (await router.chat()).status_code == 200
    assert (await router.client.get("/readyz")).status_code == 200


async def test_labels_that_change_are_shown_and_lose_nothing(fleet, route, endpoint_file):
    [one] = await fleet(1)
    router = await route(discovery=DiscoverySettings(file=endpoint_file(f"{one.url},zone=a"), **OFTEN))
    await router.know("sim/llama-8b")
    await router.chat(LONG_TEXT)
    entries = await router.sample("epp_index_entries")
    endpoint_file(f"{one.url},zone=b")

    async def labelled():
        state = (await router.client.get("/debug/state?index=false")).json()["endpoints"]
        return state[0]["labels"] == {"zone": "b"}

    await eventually(labelled)

    assert await router.sample("epp_index_entries") == entries > 0


async def test_an_endpoint_that_is_restarted_with_another_model_moves_to_it(fleet, route):
    one, two = await fleet(2)
    router = await route(one, two)
    await router.know("sim/llama-8b")
    assert (await router.chat(model="sim/other")).status_code == 404
    await two.stop()
    two.settings = replace(two.settings, model="sim/other")
    await two.start()

    async def moved():
        models = (await router.client.get("/v1/models")).json()["data"]
        return {model["id"] for model in models} == {"sim/llama-8b", "sim/other"}

    await eventually(moved)
    for _ in range(4):
        assert (await router.chat(model="sim/other")).headers["x-epp-endpoint"] == two.address
        assert (await router.chat(model="sim/llama-8b")).headers["x-epp-endpoint"] == one.address


async def test_addresses_of_a_name_are_endpoints_and_follow_it(fleet, route, monkeypatch):
    [one] = await fleet(1, host="127.0.0.1")
    [two] = await fleet(1, host="127.0.0.2", port=one.port)
    async with dns_server() as dns:
        dns.ttl_s = 0
        dns.records["vllm.test.", "A"] = ["127.0.0.1"]
        monkeypatch.setattr(
            "epp.discovery.dnspython_resolver.DnspythonResolver",
            lambda: DnspythonResolver(("127.0.0.1",), dns.port),
        )
        name = parse_dns_name(f"http://vllm.test:{one.port}")
        router = await route(discovery=DiscoverySettings(dns=(name,), dns_min_interval_s=0.02))
        await settled(router, one)
        dns.records["vllm.test.", "A"] = ["127.0.0.1", "127.0.0.2"]
        await settled(router, one, two)
        assert (await router.chat()).status_code == 200
        dns.failing = {("vllm.test.", "A"), ("vllm.test.", "AAAA")}

        async def failing():
            return await router.sample("epp_discovery_last_look_success") == 0.0

        await eventually(failing)
        assert await addresses(router) == sorted([one.address, two.address])
        dns.failing.clear()
        dns.records["vllm.test.", "A"] = ["127.0.0.2"]
        await settled(router, two)


async def test_a_signal_looks_at_once(fleet, spawn, tmp_path, connect):
    one, two = await fleet(2)
    file = tmp_path / "endpoints.yaml"
    file.write_text(f"- {one.url}\n")
    flags = ["--discovery-file", str(file), "--discovery-file-interval", "1h", "--port", str(free_port())]
    process = await spawn(*flags, EPP_LOG_FORMAT="json")
    client = await connect(await process.url())
    file.write_text(f"- {one.url}\n- {two.url}\n")
    process.signal(signal.SIGHUP)

    async def both():
        return len((await client.get("/readyz")).json()["detail"]["endpoints"]) == 2

    await eventually(both)
    [change] = [
        line for line in process.log() if line["message"] == "endpoints changed" and line["endpoints"] == 2
    ]

    assert change["added"] == two.address
