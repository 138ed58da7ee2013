"""Start, load, disconnects, drain, death, sleep."""

import asyncio

import httpx
import pytest

from epp.simserver import SimServer, SimSettings
from tests.simserver.kit import chat, events, eventually, metric, raw_exchange, raw_post

SLOW = {"time_scale": 1.0, "answer_tokens": (4000, 4000)}
"""A request goes on for half a minute unless it is stopped."""


def post(client, **fields):
    """A request under way."""
    return asyncio.create_task(client.post("/v1/completions", json={"prompt": [1] * 40, **fields}))


async def first_chunk(server, **fields):
    """A streaming request whose first chunk has come: its reader and writer."""
    body = {"prompt": [1] * 40, "stream": True, "ignore_eos": True, "max_tokens": 4000, **fields}
    reader, writer = await asyncio.open_connection(server.settings.host, server.port)
    writer.write(raw_post("/v1/completions", body))
    await reader.readuntil(b"data: ")
    return reader, writer


# -------------------------------------------------------------------- load


async def test_gauges_tell_running_waiting_and_usage(launch, connect):
    server = await launch(**SLOW, max_num_seqs=2, gpu_blocks=1001)
    client = await connect(server)
    tasks = [post(client, max_tokens=4000, ignore_eos=True) for _ in range(5)]
    await eventually(lambda: server.core.engine.counters.generation > 4)

    assert await metric(client, "vllm:num_requests_running") == 2
    assert await metric(client, "vllm:num_requests_waiting") == 3
    assert await metric(client, "vllm:num_requests_waiting_by_reason", reason="capacity") == 3
    assert await metric(client, "vllm:num_requests_waiting_by_reason", reason="deferred") == 0
    assert 0.003 < await metric(client, "vllm:kv_cache_usage_perc") < 0.01
    assert (await client.get("/load")).json() == {"server_load": 5}
    for task in tasks:
        task.cancel()


async def test_an_idle_server_reports_no_usage_though_its_cache_is_warm(launch, connect):
    client = await connect(await launch())
    await post(client, max_tokens=2)

    assert await metric(client, "vllm:kv_cache_usage_perc") == 0
    assert await metric(client, "vllm:num_requests_running") == 0


async def test_the_time_scale_speeds_the_model_up(launch, connect):
    """1,000 steps of 6 ms would take 6 s; latencies are told in real seconds."""
    client = await connect(await launch(time_scale=1000.0))
    await post(client, max_tokens=1000, ignore_eos=True)

    assert await metric(client, "vllm:e2e_request_latency_seconds_sum") < 3


async def test_an_idle_connection_is_closed(launch):
    server = await launch(keep_alive_s=0.02)
    data = await raw_exchange(server, b"GET /health HTTP/1.1\r\nhost: sim\r\n\r\n")

    assert data.startswith(b"HTTP/1.1 200 OK\r\n")


def test_connections_stay_open_for_five_seconds_unless_told():
    assert SimSettings().keep_alive_s == 5.0


async def test_the_date_header_is_kept_up_to_date(launch, monkeypatch):
    monkeypatch.setattr("epp.simserver.server.DATE_INTERVAL_S", 0.001)
    server = await launch()
    server._state.default_headers = []
    await eventually(lambda: server._state.default_headers)

    assert [name for name, _ in server._state.default_headers] == [b"date", b"server"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")])
async def test_probes_answer_with_an_empty_body(launch, connect, method, path):
    client = await connect(await launch())
    response = await client.request(method, path)

    assert (response.status_code, response.content) == (200, b"")
    assert list(response.headers) == ["date", "server", "content-length", "vary"]


# -------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("path", "prefix"), [("/v1/chat/completions", "chatcmpl"), ("/v1/completions", "cmpl")]
)
async def test_the_request_id_becomes_the_body_id(launch, connect, path, prefix):
    client = await connect(await launch())
    response = await client.post(path, json=chat(prompt="a"), headers={"x-request-id": "mine"})

    assert response.json()["id"] == f"{prefix}-mine"
    assert "x-request-id" not in response.headers


async def test_without_the_header_the_body_may_name_the_request(launch, connect):
    client = await connect(await launch())

    assert (await client.post("/v1/chat/completions", json=chat(request_id="b"))).json()["id"] == "chatcmpl-b"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/health", "/nothing"])
async def test_the_request_id_is_echoed_on_request(launch, connect, path):
    client = await connect(await launch(request_id_headers=True))
    given = await client.post(path, json=chat(), headers={"x-request-id": "mine"})
    made = await client.post(path, json=chat())

    assert given.headers["x-request-id"] == "mine"
    assert len(made.headers["x-request-id"]) == 32


async def test_two_requests_may_have_the_same_id(launch, connect):
    client = await connect(await launch())
    headers = {"x-request-id": "same"}
    answers = await asyncio.gather(
        *(client.post("/v1/chat/completions", json=chat(), headers=headers) for _ in range(3))
    )

    assert [answer.status_code for answer in answers] == [200, 200, 200]


# -------------------------------------------------------------------- disconnects


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_the_engine(launch, stream):
    server = await launch(**SLOW)
    body = {"prompt": [1] * 40, "max_tokens": 4000, "ignore_eos": True, "stream": stream}
    _, writer = await asyncio.open_connection(server.settings.host, server.port)
    writer.write(raw_post("/v1/completions", body))
    await eventually(lambda: server.core.engine.counters.generation > 3)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: server.core.engine.live_requests == 0)

    assert server.core.inference_in_flight == 0
    assert server.core.engine.gauges().kv_usage == 0


async def test_an_aborted_request_counts_nowhere_and_leaves_the_gauges(launch, connect):
    server = await launch(**SLOW)
    client = await connect(server)
    _, writer = await first_chunk(server)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: server.core.engine.live_requests == 0)

    assert await metric(client, "vllm:num_requests_running") == 0
    assert await metric(client, "vllm:request_success_total", finished_reason="abort") == 0
    assert await metric(client, "vllm:e2e_request_latency_seconds_count") == 0


async def test_a_client_that_leaves_within_its_body_leaves_nothing_behind(launch):
    server = await launch()
    _, writer = await asyncio.open_connection(server.settings.host, server.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: sim\r\ncontent-length: 100\r\n\r\nabc")
    await eventually(lambda: server._state.tasks)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: not server._state.tasks)

    assert server.core.inference_in_flight == 0


# -------------------------------------------------------------------- end


async def test_a_draining_server_refuses_requests_answers_probes_and_ends_streams(launch, connect):
    server = await launch(time_scale=10.0)
    client = await connect(server)
    reader, writer = await first_chunk(server, max_tokens=100)
    server.begin_drain()
    refused = await client.post("/v1/chat/completions", json=chat())
    probes = [(await client.get(path)).status_code for path in ("/health", "/v1/models", "/metrics")]
    rest = await reader.read()
    writer.close()

    assert refused.status_code == 500
    assert refused.json() == {
        "error": {
            "message": "cannot schedule new futures after shutdown",
            "type": "InternalServerError",
            "param": None,
            "code": 500,
        }
    }
    assert probes == [200, 200, 200]
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_drain_ends_when_the_last_request_has_ended(launch):
    server = await launch(time_scale=10.0, shutdown_timeout_s=20.0)
    reader, writer = await first_chunk(server, max_tokens=100)
    await server.drain()
    rest = await reader.read()
    writer.close()

    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


@pytest.mark.parametrize("timeout_s", [0.0, 0.05])
async def test_drain_cuts_what_is_left_at_its_timeout(launch, timeout_s):
    server = await launch(**SLOW, shutdown_timeout_s=timeout_s)
    reader, writer = await first_chunk(server)
    await server.drain()
    rest = await reader.read()
    writer.close()

    assert b"[DONE]" not in rest


async def test_a_killed_server_resets_connections_and_refuses_new_ones(launch):
    server = await launch(**SLOW)
    reader, writer = await first_chunk(server)
    await server.kill()

    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(server.settings.host, server.port)


async def test_a_server_that_starts_again_is_a_new_process_on_the_same_port(launch, connect):
    server = await launch()
    client = await connect(server)
    await post(client, max_tokens=1)
    before = await metric(client, "process_start_time_seconds")
    port = server.port
    await server.kill()
    await server.start()
    client = await connect(server)

    assert server.port == port
    assert await metric(client, "process_start_time_seconds") > before
    assert await metric(client, "vllm:prompt_tokens_total") == 0


async def test_stopping_twice_does_nothing():
    server = SimServer()
    await server.start()
    await server.stop()
    await server.stop()


async def test_a_taken_port_is_an_error(launch):
    server = await launch()

    with pytest.raises(OSError, match="in use"):
        await SimServer(port=server.port).start()


async def test_a_dead_engine_ends_streams_with_an_error_and_fails_requests(launch, connect):
    server = await launch(**SLOW)
    client = await connect(server)
    waiting = post(client, max_tokens=4000, ignore_eos=True)
    reader, writer = await first_chunk(server)
    server.fail_engine()
    rest = await reader.read()
    writer.close()
    message = '"message":"EngineCore encountered an issue. See stack trace (above) for the root cause."'
    error = '{"error":{' + message + ',"type":"InternalServerError","param":null,"code":500}}'

    assert f"data: {error}\n\n".encode() in rest
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert (await waiting).text == error
    assert (await client.post("/v1/completions", json={"prompt": "a"})).text == error


# -------------------------------------------------------------------- development mode


async def test_administration_needs_the_development_mode(launch, connect):
    client = await connect(await launch())

    for path in ("/reset_prefix_cache", "/sleep", "/wake_up", "/is_sleeping"):
        assert (await client.post(path)).status_code == 404


async def test_a_reset_empties_the_gpu_tier_and_on_request_the_cpu_tier(launch, connect, recorded):
    server = await launch(dev_mode=True, cpu_blocks=64)
    client = await connect(server)
    await post(client, max_tokens=1)
    plain = await client.post("/reset_prefix_cache")

    assert plain.text == recorded["reset_prefix_cache"]["body"]
    assert server.core.engine.cpu_blocks_held == 2
    await client.post("/reset_prefix_cache?reset_external=true")
    assert server.core.engine.cpu_blocks_held == 0


async def test_a_reset_fails_while_requests_run(launch, connect):
    server = await launch(**SLOW, dev_mode=True)
    client = await connect(server)
    _, writer = await first_chunk(server)

    assert (await client.post("/reset_prefix_cache")).json() == {"success": False}
    writer.close()


async def test_a_sleeping_server_is_healthy_and_refuses_requests(launch, connect):
    server = await launch(**SLOW, dev_mode=True)
    client = await connect(server)
    reader, writer = await first_chunk(server)
    slept = await client.post("/sleep?level=2")
    rest = await reader.read()
    writer.close()
    refused = await client.post("/v1/completions", json={"prompt": "a"})

    assert (slept.status_code, slept.content) == (200, b"")
    assert b'"type":"Service Unavailable","param":null,"code":503}}\n\n' in rest
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "Service Unavailable")
    assert (await client.get("/is_sleeping")).json() == {"is_sleeping": True}
    assert (await client.get("/health")).status_code == 200
    assert await metric(client, "vllm:engine_sleep_state", sleep_state="awake") == 0
    assert await metric(client, "vllm:engine_sleep_state", sleep_state="discard_all") == 1


async def test_a_server_that_wakes_up_serves_again_with_an_empty_cache(launch, connect):
    client = await connect(await launch(dev_mode=True))
    await post(client, max_tokens=1)
    await client.post("/sleep")
    await client.post("/wake_up")
    usage = (await post(client, max_tokens=1)).json()["usage"]

    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert await metric(client, "vllm:engine_sleep_state", sleep_state="awake") == 1


async def test_only_two_levels_of_sleep_exist(launch, connect):
    client = await connect(await launch(dev_mode=True))

    assert (await client.post("/sleep?level=3")).status_code == 400


# -------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_model_len": 1}, "max_model_len must lie between 2 and the 65520 tokens"),
        ({"gpu_blocks": 3, "max_model_len": 33}, "max_model_len must lie between 2 and the 32 tokens"),
        ({"time_scale": 0.0}, "time_scale must be positive"),
        ({"stream_interval": 0}, "stream_interval must be at least 1"),
        ({"answer_tokens": (0, 4)}, "answer_tokens must be a range"),
        ({"answer_tokens": (5, 4)}, "answer_tokens must be a range"),
        ({"cpu_blocks": -1}, "cpu_blocks must not be negative"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SimSettings(**settings)


def test_the_context_is_what_the_gpu_tier_holds_at_most_131072():
    assert SimSettings(gpu_blocks=101).context_tokens == 1600
    assert SimSettings(gpu_blocks=100_000).context_tokens == 131_072
    assert SimSettings(gpu_blocks=101, max_model_len=500).context_tokens == 500


async def test_seen_requests_are_kept_as_they_came(launch):
    server = await launch(record_requests=1)
    async with httpx.AsyncClient(base_url=server.url) as client:
        for prompt in ("a", "b"):
            await client.post("/v1/completions", json={"prompt": prompt}, headers={"X-Mine": prompt})
    (seen,) = server.core.seen

    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/completions", b'{"prompt":"b"}')
    assert (b"x-mine", b"b") in seen.headers


async def test_requests_that_fail_are_seen_too(launch, connect):
    server = await launch(record_requests=10)
    client = await connect(server)
    await client.post("/v1/completions", content=b"nonsense", headers={"x-sim-fault": "status=503"})
    await client.get("/health")

    assert [seen.body for seen in server.core.seen] == [b"nonsense"]


async def test_two_servers_in_one_process_share_nothing(launch, connect):
    first, second = await launch(), await launch()
    await post(await connect(first), max_tokens=1)

    assert first.port != second.port
    assert await metric(await connect(second), "vllm:prompt_tokens_total") == 0


async def test_a_stream_is_not_cut_by_its_own_length(launch, connect):
    client = await connect(await launch(time_scale=1000.0))
    response = await post(client, stream=True, max_tokens=500, ignore_eos=True)

    assert len(events(response.text)) == 501
