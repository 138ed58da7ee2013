"""The metrics page of a router that has had traffic."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.kit import LONG_TEXT, eventually, free_port

MODEL = {
    "model_name": "sim/llama-8b",
    "target_model_name": "sim/llama-8b",
}
# New name → old name, for what the traffic below must have counted.
TWINS = {
    "llm_d_epp_request_total": "inference_objective_request_total",
    "llm_d_epp_request_duration_seconds_count": "inference_objective_request_duration_seconds_count",
    "llm_d_epp_request_size_bytes_sum": "inference_objective_request_sizes_sum",
    "llm_d_epp_response_size_bytes_sum": "inference_objective_response_sizes_sum",
    "llm_d_epp_request_input_tokens_sum": "inference_objective_input_tokens_sum",
    "llm_d_epp_request_output_tokens_sum": "inference_objective_output_tokens_sum",
    "llm_d_epp_request_cached_tokens_sum": "inference_objective_prompt_cached_tokens_sum",
    "llm_d_epp_request_ntpot_seconds_count": (
        "inference_objective_normalized_time_per_output_token_seconds_count"
    ),
    "llm_d_epp_request_ttft_seconds_count": "inference_objective_request_ttft_seconds_count",
}


@pytest.fixture
async def router(fleet, route):
    """Two servers; three requests for LONG_TEXT, one for a model that does not exist, one stream."""
    servers = await fleet(2, gpu_blocks=1000, cpu_blocks=2000, report_cpu_tier=True)
    router = await route(*servers)
    await router.know("sim/llama-8b")
    for _ in range(3):
        await router.chat(LONG_TEXT, model="sim/llama-8b")
    await router.chat(model="unknown")
    await router.chat(
        "Tell", model="sim/llama-8b", stream=True, stream_options={"include_usage": True}, max_tokens=9
    )
    await router.decisions(5)
    return router


async def test_the_page_is_prometheus_text_and_counts_what_happened(router):
    answer = await router.client.get("/metrics")
    families = {family.name for family in text_string_to_metric_families(answer.text)}

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert {
        "epp_requests",
        "llm_d_epp_request",
        "inference_objective_request",
        "process_cpu_seconds",
    } <= families
    assert await router.sample("llm_d_epp_request_total", **MODEL) == 4
    assert await router.sample("epp_requests_total", reason="complete", status="200") == 4
    assert await router.sample("epp_requests_total", reason="rejected", status="404") == 1
    assert await router.sample("llm_d_epp_request_error_total", error_code="model_not_found") == 1
    assert await router.sample("llm_d_epp_request_output_tokens_sum", **MODEL) == 3 * 4 + 9
    assert await router.sample("llm_d_epp_scheduler_attempts_total", status="success") == 4


async def test_old_and_new_names_tell_the_same(router):
    new = {name: await router.sample(name, **MODEL) for name in TWINS}
    old = {name: await router.sample(TWINS[name], **MODEL) for name in TWINS}

    assert [name for name, value in new.items() if not value] == []
    assert old == new


async def test_hits_are_shown_as_predicted_and_as_measured(router):
    predicted = await router.sample("epp_predicted_hit_tokens_total", tier="gpu")
    measured = await router.sample("epp_measured_cached_tokens_total")
    gap = await router.sample("epp_prediction_gap_tokens_total")

    # Two repeats of a prompt of more than 2,000 tokens.
    assert predicted > 4000
    assert measured > 4000
    assert gap < 0.05 * measured


async def test_the_index_is_shown_by_tier_with_the_capacity_that_the_engine_reports(router):
    entries = {
        tier: await router.sample("llm_d_epp_prefix_indexer_size", tier=tier) for tier in ("gpu", "cpu")
    }
    capacities = {
        tier: {
            value
            for labels, value in await router.samples("epp_index_capacity_tokens")
            if labels["tier"] == tier
        }
        for tier in ("gpu", "cpu")
    }

    assert entries["gpu"] == entries["cpu"] > 30
    assert capacities == {"gpu": {16_000.0}, "cpu": {32_000.0}}


async def test_build_and_configuration_are_told(router):
    assert await router.sample("epp_build_info", version="0.1.0") == 1
    ready = (await router.client.get("/readyz")).json()
    assert await router.sample("epp_config_info", hash=ready["detail"]["config_hash"]) == 1
    assert await router.sample("llm_d_epp_info") == 1


async def test_what_the_endpoints_report_is_shown_by_endpoint(router):
    state = (await router.client.get("/debug/state?index=false")).json()["endpoints"]
    addresses = {endpoint["url"].removeprefix("http://") for endpoint in state}

    for name in ("epp_endpoint_queue_size", "epp_endpoint_kv_cache_utilization", "epp_endpoint_ready"):
        assert {labels["endpoint"] for labels, _ in await router.samples(name)} == addresses
    assert await router.sample("llm_d_epp_ready_endpoints", name="default") == 2
    assert await router.sample("inference_pool_ready_pods", name="default") == 2


async def test_tokens_that_the_engines_count_by_source_are_passed_on(router):
    async def counted():
        return await router.sample("epp_endpoint_cached_tokens_total", source="device") > 4000

    await eventually(counted)


async def test_an_endpoint_that_does_not_answer_is_counted_and_has_no_gauges(fleet, route):
    [server] = await fleet()
    dead = f"127.0.0.1:{free_port()}"
    router = await route(server, f"http://{dead}")

    await eventually(lambda: router.sample("epp_scrape_errors_total", endpoint=dead, kind="connect"))

    queues = {labels["endpoint"] for labels, _ in await router.samples("epp_endpoint_queue_size")}
    assert dead not in queues
    assert await router.sample("epp_stale_endpoints") >= 1
    assert await router.sample("epp_endpoints") == 2


async def test_a_running_request_is_shown_while_it_runs(fleet, route):
    [server] = await fleet(time_scale=1.0)
    router = await route(server)
    await router.know("sim/llama-8b")
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4000, "stream": True}

    async with router.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        events = answer.aiter_bytes()
        await anext(events)
        running = await router.sample("llm_d_epp_request_running", target_model_name="sim/llama-8b")
        in_flight = await router.sample("epp_endpoint_inflight_requests", endpoint=server.address)

    assert (running, in_flight) == (1, 1)
    await router.decisions(1)
    assert await router.sample("epp_inflight_requests") == 0
