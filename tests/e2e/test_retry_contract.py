"""What happens to requests when simulated servers fail, byte by byte on real sockets."""

import asyncio
import signal

import httpx
import pytest

from epp.config.settings import RetrySettings, StreamSettings
from tests.e2e.kit import LONG_TEXT, chat, eventually, free_port


async def keep(answer, events):
    """Put the events of a stream into `events` as they come."""
    async for line in answer.aiter_lines():
        if line:
            events.append(line)


@pytest.fixture
async def pair(fleet, route):
    """A router, the server that holds LONG_TEXT, and the other one."""
    servers = await fleet(2)
    router = await route(*servers)
    await router.know("sim/llama-8b")
    warm = await router.chat(LONG_TEXT)
    holder = next(server for server in servers if server.address == warm.headers["x-epp-endpoint"])
    other = next(server for server in servers if server is not holder)
    return router, holder, other


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("status=503", "unavailable"), ("engine-dead", "engine-down"), ("draining", "engine-down")],
)
async def test_an_endpoint_that_cannot_serve_passes_the_request_to_the_next(pair, fault, kind):
    router, holder, other = pair
    holder.core.faults.add(fault)

    answer = await router.chat(LONG_TEXT)
    [decision] = await router.decisions(1)

    assert answer.status_code == 200
    assert answer.headers["x-epp-endpoint"] == other.address
    assert decision["retries"] == [kind]
    assert decision["attempts"] == 2
    assert await router.samples("epp_retries_total") == [({"kind": kind}, 1)]


@pytest.mark.parametrize("fault", ["reset-before-head", "close-before-head"])
async def test_a_reused_connection_that_breaks_is_replaced_once_then_the_next_endpoint_is_asked(pair, fault):
    router, holder, other = pair
    holder.core.faults.add(fault, times=2)

    answer = await router.chat(LONG_TEXT)
    [decision] = await router.decisions(1)

    assert answer.status_code == 200
    assert answer.headers["x-epp-endpoint"] == other.address
    assert decision["retries"] == ["closed-reused", "broken"]
    assert await router.samples("epp_retries_total") == [
        ({"kind": "closed-reused"}, 1),
        ({"kind": "broken"}, 1),
    ]


async def test_an_endpoint_that_does_not_speak_http_passes_the_request_to_the_next(pair):
    router, holder, other = pair
    holder.core.faults.add("garbage-head")

    answer = await router.chat(LONG_TEXT)

    assert answer.status_code == 200
    assert answer.headers["x-epp-endpoint"] == other.address
    assert await router.sample("epp_retries_total", kind="broken") == 1


async def test_a_connection_that_closed_while_idle_is_replaced_at_the_same_endpoint(pair):
    router, holder, _ = pair
    for connection in list(holder._state.connections):
        connection.transport.abort()

    answer = await router.chat(LONG_TEXT)

    assert answer.status_code == 200
    assert answer.headers["x-epp-endpoint"] == holder.address
    assert await router.sample("epp_ejections_total") == 0


async def test_a_dead_engine_is_ejected_at_once_and_the_receipt_says_so(pair):
    router, holder, other = pair
    holder.core.faults.add("engine-dead")
    await router.chat(LONG_TEXT)

    answer = await router.chat(LONG_TEXT, headers={"x-epp-explain": "1"})
    pick = (await router.client.post("/pick", json=chat(LONG_TEXT))).json()

    assert answer.headers["x-epp-endpoint"] == other.address
    assert " candidates=1 excluded=1 " in answer.headers["x-epp-decision"]
    assert pick["receipt"]["excluded"] == [{"endpoint": holder.address, "reason": "ejected: engine-down"}]
    assert await router.sample("epp_ejections_total", cause="engine-down") == 1


async def test_when_every_execution_failed_the_last_answer_passes_as_it_is(pair):
    router, holder, other = pair
    for server in (holder, other):
        server.core.faults.add("status=503")

    answer = await router.chat(LONG_TEXT)

    assert answer.status_code == 503
    assert answer.headers["x-epp-endpoint"] == other.address
    assert answer.json()["error"]["message"].startswith("The engine is busy")


async def test_the_budget_ends_repeats_after_503(fleet, route):
    servers = await fleet(3)
    router = await route(*servers, retry=RetrySettings(budget_percent=0, budget_minimum=2))
    await router.know("sim/llama-8b")
    for server in servers:
        server.core.faults.add("status=503", times=None)

    answers = [await router.chat() for _ in range(4)]
    decisions = await router.decisions(4)

    assert {answer.status_code for answer in answers} == {503}
    assert [decision["attempts"] for decision in decisions] == [3, 1, 1, 1]


@pytest.mark.parametrize("status", [400, 404, 429, 500, 502])
async def test_other_statuses_pass_and_are_executed_once(pair, status):
    router, holder, _ = pair
    holder.core.faults.add(f"status={status}")

    answer = await router.chat(LONG_TEXT)
    [decision] = await router.decisions(1)

    assert answer.status_code == status
    assert answer.headers["x-epp-endpoint"] == holder.address
    assert decision["attempts"] == 1


async def test_a_port_that_refuses_costs_no_request(fleet, route):
    [server] = await fleet()
    router = await route(server, f"http://127.0.0.1:{free_port()}")

    answers = [await router.chat(f"{n}") for n in range(8)]

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["x-epp-endpoint"] for answer in answers} == {server.address}


async def test_a_server_that_was_killed_is_replaced_and_then_ejected(pair):
    router, holder, other = pair
    await holder.kill()

    answers = [await router.chat(LONG_TEXT) for _ in range(6)]
    await eventually(lambda: router.sample("epp_endpoint_ejected", endpoint=holder.address))

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["x-epp-endpoint"] for answer in answers} == {other.address}
    assert await router.sample("epp_endpoint_ready", endpoint=holder.address) == 0


async def test_a_stream_that_began_is_never_sent_again_and_never_ends_cleanly(pair):
    router, holder, other = pair
    holder.core.faults.add("reset-after=3")
    before = len(other.core.seen)

    async with router.client.stream(
        "POST", "/v1/chat/completions", json=chat(LONG_TEXT, stream=True, max_tokens=50)
    ) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            [line async for line in answer.aiter_lines()]
    [decision] = await router.decisions(1)

    assert answer.status_code == 200
    assert decision["reason"] == "upstream_aborted"
    assert decision["attempts"] == 1
    assert len(other.core.seen) == before


async def test_with_the_setting_a_broken_stream_says_so_before_it_is_cut(fleet, route):
    [server] = await fleet()
    router = await route(server, stream=StreamSettings(error_event=True))
    server.core.faults.add("reset-after=3")
    events = []

    async with router.client.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            await keep(answer, events)

    assert "[DONE]" not in "".join(events)
    assert '"error"' in events[-1]


async def test_an_error_event_of_the_endpoint_passes_within_a_complete_stream(pair):
    router, holder, _ = pair
    holder.core.faults.add("error-event=2")

    answer = await router.chat(LONG_TEXT, stream=True, max_tokens=50)
    [decision] = await router.decisions(1)

    assert "EngineCore encountered an issue" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert decision["reason"] == "complete"


async def test_nothing_is_left_in_flight_after_failures_of_every_kind(pair):
    router, holder, other = pair
    for fault in ("status=503", "reset-before-head", "reset-after=2", "truncate=2", "engine-dead"):
        holder.core.faults.add(fault)
        other.core.faults.add(fault)

    for _ in range(6):
        try:
            await router.chat(LONG_TEXT, stream=True)
        except httpx.HTTPError:
            continue

    await router.decisions(7)
    assert await router.sample("epp_inflight_requests") == 0
    assert await router.sample("epp_endpoint_inflight_uncached_tokens") == 0


async def test_a_server_killed_under_load_costs_only_the_streams_that_had_begun_there(route, spawn, tmp_path):
    processes = [
        await spawn("sim-server", "--port", "0", "--time-scale", "20", "--answer-tokens", "30:60")
        for _ in range(2)
    ]
    urls = [await eventually(lambda p=p: p.stdout.removeprefix("listening on ").strip()) for p in processes]
    router = await route(*urls)
    await router.know("sim/llama-8b")
    begun, broken = asyncio.Event(), []

    async def streamed(number):
        async with router.client.stream(
            "POST", "/v1/chat/completions", json=chat(f"{number}", stream=True, max_tokens=1500)
        ) as answer:
            try:
                async for _ in answer.aiter_bytes():
                    begun.set()
            except httpx.RemoteProtocolError:
                broken.append(answer.headers["x-epp-endpoint"])
            return answer.status_code

    streams = [asyncio.create_task(streamed(n)) for n in range(4)]
    whole = [asyncio.create_task(router.chat(f"whole {n}", max_tokens=200)) for n in range(40)]
    await begun.wait()
    processes[0].signal(signal.SIGKILL)
    late = [router.chat(f"late {n}") for n in range(20)]
    answers = await asyncio.gather(*whole, *late)

    assert {answer.status_code for answer in answers} == {200}
    assert set(await asyncio.gather(*streams)) == {200}
    assert set(broken) <= {urls[0].removeprefix("http://")}
    assert await router.sample("epp_retries_total") > 0
    assert await router.sample("epp_inflight_requests") == 0
