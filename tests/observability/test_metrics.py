"""What the metrics page shows."""

import platform

import msgspec
import pytest
from prometheus_client import Gauge
from prometheus_client.parser import text_string_to_metric_families

from epp.clock import ManualClock
from epp.director.types import EndReason, FailureKind
from epp.endpoints.types import ModelInfo
from epp.observability.families import FAMILIES
from epp.observability.metrics import BuildInfo, Metrics, Sources
from epp.request import Rewrite
from epp.response.types import Usage
from tests.observability.builders import E1, E2, World, address

M = 'model_name="m",target_model_name="m"'
FLOW = f'{M},fairness_id="default-flow",priority="0"'


@pytest.fixture
def world() -> World:
    return World()


def count(world: World, family: str) -> dict[str, float]:
    return world.samples(f"{family}_count")


def test_the_client_library_reads_the_page_and_finds_every_family_once(world):
    world.scrape(0, waiting=1.0, cached_tokens_by_source={"device": 5.0})
    world.observe(world.record())

    families = [f for f in text_string_to_metric_families(world.page()) if not f.name.startswith("process_")]

    declared = {name: family.type for family in FAMILIES for name in family.names}
    expected = {
        name.removesuffix("_total") if kind == "counter" else name: kind for name, kind in declared.items()
    }
    assert {f.name: f.type for f in families} == expected
    assert len(families) == len(expected)
    assert all(f.documentation for f in families)


def test_the_page_has_no_created_lines(world):
    world.observe(world.record())

    assert "_created" not in world.page()


def test_process_metrics_are_on_the_page(world):
    assert world.samples("process_resident_memory_bytes")[""] > 0


def test_collectors_that_are_registered_appear(world):
    Gauge("extra", "Help.", registry=world.metrics.registry).set(7)

    assert world.samples("extra") == {"": 7.0}


def test_two_of_them_share_nothing():
    first, second = World(), World()
    first.observe(first.record())

    assert second.samples("llm_d_epp_request_total") == {}


# --- requests -----------------------------------------------------------------------------------------------


def test_requests_are_counted_under_both_names(world):
    world.observe(world.record())
    world.observe(world.record())

    assert world.samples("llm_d_epp_request_total") == {FLOW: 2.0}
    assert world.samples("inference_objective_request_total") == {M: 2.0}


def test_the_older_name_sums_over_fairness_and_priority(world):
    world.observe(world.record())
    world.observe(world.record(priority=-5, fairness_id="tenant"))

    assert world.samples("llm_d_epp_request_total") == {
        FLOW: 1.0,
        f'{M},fairness_id="tenant",priority="-5"': 1.0,
    }
    assert world.samples("inference_objective_request_total") == {M: 2.0}


@pytest.mark.parametrize(
    "model, target, labels",
    [
        ("alias", "m", 'model_name="alias",target_model_name="m"'),
        (None, "m", 'model_name="m",target_model_name="m"'),
        ("gone", "", 'model_name="gone",target_model_name="gone"'),
        (None, "", 'model_name="unknown",target_model_name="unknown"'),
    ],
)
def test_a_missing_model_name_is_taken_from_the_other(world, model, target, labels):
    world.observe(world.record(model=model, target_model=target))

    assert list(world.samples("inference_objective_request_total")) == [labels]


@pytest.mark.parametrize(
    "fields, code",
    [
        (
            {"status": 404, "error": "model_not_found", "reason": EndReason.REJECTED, "endpoint": None},
            "model_not_found",
        ),
        ({"reason": EndReason.CLIENT_DISCONNECTED}, "client_disconnected"),
        ({"reason": EndReason.UPSTREAM_ABORTED}, "upstream_aborted"),
        ({"reason": EndReason.TIMEOUT, "status": 504, "error": "upstream_timeout"}, "upstream_timeout"),
        ({"status": 400}, "upstream_4xx"),
        ({"status": 503}, "upstream_5xx"),
    ],
)
def test_failures_are_counted_by_code(world, fields, code):
    world.observe(world.record(**fields))

    assert world.samples("llm_d_epp_request_error_total") == {f'{FLOW},error_code="{code}"': 1.0}
    assert world.samples("inference_objective_request_error_total") == {f'{M},error_code="{code}"': 1.0}


def test_a_success_is_no_failure(world):
    world.observe(world.record())

    assert world.samples("llm_d_epp_request_error_total") == {}


def test_ends_are_counted_by_reason_and_status(world):
    world.observe(world.record())
    world.observe(world.record(status=None, reason=EndReason.CLIENT_DISCONNECTED))

    assert world.samples("epp_requests_total") == {
        'reason="complete",status="200"': 1.0,
        'reason="client_disconnected",status=""': 1.0,
    }


def test_sizes_tokens_and_times_of_a_response(world):
    world.observe(world.record())

    sums = {
        "llm_d_epp_request_duration_seconds": 0.812,
        "llm_d_epp_request_size_bytes": 1300.0,
        "llm_d_epp_response_size_bytes": 30.0,
        "llm_d_epp_request_input_tokens": 250.0,
        "llm_d_epp_request_output_tokens": 71.0,
        "llm_d_epp_request_cached_tokens": 224.0,
        "llm_d_epp_request_ntpot_seconds": 0.812 / 71,
        "llm_d_epp_request_streaming_tpot_seconds": 0.01,
    }
    assert {name: world.samples(f"{name}_sum")[FLOW] for name in sums} == pytest.approx(sums, rel=1e-6)
    first = world.samples("llm_d_epp_request_ttft_seconds_sum")
    assert first == pytest.approx({f'{FLOW},streaming="true"': 0.112}, rel=1e-6)
    assert world.samples("inference_objective_request_ttft_seconds_sum")[M] == pytest.approx(0.112, rel=1e-6)


def test_a_response_in_three_chunks_is_one_observation_of_its_size(world):
    world.observe(world.record(response_bytes=30))

    assert count(world, "llm_d_epp_response_size_bytes") == {FLOW: 1.0}
    assert world.samples("llm_d_epp_response_size_bytes_bucket")[f'{FLOW},le="32.0"'] == 1.0
    assert world.samples("llm_d_epp_response_size_bytes_bucket")[f'{FLOW},le="16.0"'] == 0.0


def test_what_an_endpoint_did_not_report_is_not_observed(world):
    world.observe(world.record(usage=None, first_byte_at=None))
    world.observe(world.record(usage=Usage()))

    assert count(world, "llm_d_epp_request_input_tokens") == {}
    assert count(world, "llm_d_epp_request_output_tokens") == {}
    assert count(world, "llm_d_epp_request_cached_tokens") == {}
    assert count(world, "llm_d_epp_request_ntpot_seconds") == {}
    assert count(world, "llm_d_epp_request_duration_seconds") == {FLOW: 2.0}
    assert count(world, "llm_d_epp_request_ttft_seconds") == {f'{FLOW},streaming="true"': 1.0}


@pytest.mark.parametrize(
    "fields",
    [{"stream": False}, {"usage": Usage(10, 1, None)}, {"first_byte_at": None}],
    ids=["no stream", "one token", "no first byte"],
)
def test_time_between_tokens_needs_a_stream_of_several(world, fields):
    world.observe(world.record(**fields))

    assert count(world, "llm_d_epp_request_streaming_tpot_seconds") == {}


def test_a_broken_off_response_has_a_size_and_no_duration(world):
    world.observe(world.record(reason=EndReason.UPSTREAM_ABORTED))

    assert count(world, "llm_d_epp_response_size_bytes") == {FLOW: 1.0}
    assert count(world, "llm_d_epp_request_duration_seconds") == {}


def test_the_routers_own_answers_are_no_responses_of_endpoints(world):
    world.observe(world.record(status=502, error="upstream_connect_failed", reason=EndReason.REJECTED))

    assert count(world, "llm_d_epp_request_size_bytes") == {FLOW: 1.0}
    assert count(world, "llm_d_epp_response_size_bytes") == {}
    assert count(world, "llm_d_epp_request_duration_seconds") == {}
    assert world.samples("epp_predicted_hit_tokens_total") == {}


def test_repeats_are_counted_by_what_caused_them(world):
    world.observe(
        world.record(retries=(FailureKind.CONNECT, FailureKind.UNAVAILABLE, FailureKind.CONNECT), attempts=4)
    )

    assert world.samples("epp_retries_total") == {'kind="connect"': 2.0, 'kind="unavailable"': 1.0}


def test_the_last_failure_that_was_not_repeated_is_no_retry(world):
    world.observe(world.record(retries=(FailureKind.CONNECT, FailureKind.BROKEN), attempts=2))

    assert world.samples("epp_retries_total") == {'kind="connect"': 1.0}


def test_requests_that_the_router_turned_away_are_counted_by_reason_and_priority(world):
    shed = {
        "reason": EndReason.REJECTED,
        "error": "saturated",
        "dropped": "rejected-saturated",
        "status": 429,
    }
    world.observe(world.record(endpoint=None, priority=-1, **shed))
    world.observe(world.record(endpoint=None, priority=-1, **shed))
    world.observe(world.record(endpoint=None, **shed))
    world.observe(world.record())

    assert world.samples("epp_requests_dropped_total") == {
        'reason="rejected-saturated",priority="-1"': 2.0,
        'reason="rejected-saturated",priority="0"': 1.0,
    }
    errors = world.samples("llm_d_epp_request_error_total")
    assert {labels.partition('priority="')[2]: count for labels, count in errors.items()} == {
        '-1",error_code="saturated"': 2.0,
        '0",error_code="saturated"': 1.0,
    }


def test_saturation_is_shown_under_both_names_and_absent_when_nothing_is_known(world):
    assert world.samples("llm_d_epp_flow_control_pool_saturation") == {
        'inference_pool="fleet",stage=""': 0.75
    }
    assert world.samples("inference_extension_flow_control_pool_saturation") == {
        'inference_pool="fleet"': 0.75
    }

    world.saturation = None

    assert world.samples("llm_d_epp_flow_control_pool_saturation") == {}


def test_the_routers_own_time_is_observed_once_for_all_families(world):
    world.observe(world.record(prepare_s=0.003, decision_s=0.00015))

    assert world.samples("epp_decision_seconds_sum") == {"": 0.00015}
    assert world.samples("llm_d_epp_scheduler_e2e_duration_seconds_sum") == {"": 0.00015}
    buckets = world.samples("inference_extension_scheduler_e2e_duration_seconds_bucket")
    assert (buckets['le="0.0001"'], buckets['le="0.0002"']) == (0.0, 1.0)
    assert world.samples("epp_prepare_seconds_sum") == {"": 0.003}
    assert world.samples("llm_d_epp_request_processing_duration_seconds_sum") == {"": pytest.approx(0.00315)}


def test_a_request_that_never_came_to_scheduling_has_no_decision_time(world):
    world.observe(world.record(decision_s=None, decision=None, endpoint=None))

    assert count(world, "epp_decision_seconds") == {"": 0.0}
    assert count(world, "epp_prepare_seconds") == {"": 1.0}
    assert world.samples("llm_d_epp_scheduler_attempts_total") == {}


def test_scheduling_attempts_name_the_endpoint(world):
    world.table.sync([World.spec(0, name="vllm-0"), World.spec(1)], 0.0)
    world.observe(world.record(0))
    world.observe(world.record(1))
    world.observe(world.record(endpoint=None, status=503, error="no_endpoints", decision=None))

    target = 'target_model_name="m"'
    assert world.samples("llm_d_epp_scheduler_attempts_total") == {
        f'status="failure",{target},endpoint_name="",namespace="",port=""': 1.0,
        f'status="success",{target},endpoint_name="vllm-0",namespace="",port="8000"': 1.0,
        f'status="success",{target},endpoint_name="10.0.0.2",namespace="",port="8000"': 1.0,
    }
    assert f'status="success",{target},pod_name="vllm-0",namespace="",port="8000"' in world.samples(
        "inference_extension_scheduler_attempts_total"
    )


# --- predictions --------------------------------------------------------------------------------------------


def test_predicted_tokens_are_counted_by_tier_and_endpoint(world):
    world.observe(world.record(0, predicted_gpu_tokens=192, predicted_cpu_tokens=48))
    world.observe(world.record(1, predicted_gpu_tokens=0, predicted_cpu_tokens=64))

    assert world.samples("epp_prompt_tokens_estimated_total") == {'model_name="m"': 512.0}
    assert world.samples("epp_predicted_hit_tokens_total") == {
        'model_name="m",tier="gpu"': 192.0,
        'model_name="m",tier="cpu"': 112.0,
    }
    assert world.samples("epp_endpoint_predicted_hit_tokens_total") == {
        f'endpoint="{E1}",tier="gpu"': 192.0,
        f'endpoint="{E1}",tier="cpu"': 48.0,
        f'endpoint="{E2}",tier="gpu"': 0.0,
        f'endpoint="{E2}",tier="cpu"': 64.0,
    }


@pytest.mark.parametrize(
    "cached, over, under",
    [(224, 16.0, 0.0), (240, 0.0, 0.0), (250, 0.0, 10.0)],
    ids=["over", "exact", "under"],
)
def test_the_gap_is_between_all_tiers_together_and_what_was_cached(world, cached, over, under):
    world.observe(world.record(usage=Usage(260, 5, cached)))

    assert world.samples("epp_prediction_gap_tokens_total") == {
        'model_name="m",direction="over"': over,
        'model_name="m",direction="under"': under,
    }
    assert world.samples("epp_measured_cached_tokens_total") == {'model_name="m"': float(cached)}
    assert world.samples("epp_measured_prompt_tokens_total") == {'model_name="m"': 260.0}
    assert world.samples("epp_compared_predicted_tokens_total") == {'model_name="m"': 240.0}


@pytest.mark.parametrize("usage", [None, Usage(250, 5, None), Usage(None, 5, 224)])
def test_without_a_full_report_there_is_nothing_to_compare(world, usage):
    world.observe(world.record(usage=usage))

    assert world.samples("epp_compared_predicted_tokens_total") == {'model_name="m"': 0.0}
    assert world.samples("epp_measured_cached_tokens_total") == {'model_name="m"': 0.0}
    assert world.samples("epp_predicted_hit_tokens_total")['model_name="m",tier="gpu"'] == 192.0


def test_without_a_tier_nothing_is_predicted(world):
    world.observe(
        world.record(predicted_gpu_tokens=None, predicted_cpu_tokens=None, prompt_tokens_estimated=None)
    )

    assert world.samples("epp_prompt_tokens_estimated_total") == {'model_name="m"': 0.0}
    assert world.samples("epp_endpoint_predicted_hit_tokens_total") == {
        f'endpoint="{E1}",tier="gpu"': 0.0,
        f'endpoint="{E1}",tier="cpu"': 0.0,
    }
    assert world.samples("epp_compared_predicted_tokens_total") == {'model_name="m"': 0.0}


def test_one_tier_alone_is_compared_alone(world):
    world.observe(world.record(predicted_cpu_tokens=None, usage=Usage(250, 5, 192)))

    assert world.samples("epp_compared_predicted_tokens_total") == {'model_name="m"': 192.0}


def test_predictions_of_a_request_that_an_endpoint_refused_do_not_count(world):
    world.observe(world.record(status=400))

    assert world.samples("epp_predicted_hit_tokens_total") == {}


def test_matches_are_observed_by_view_with_its_tier(world):
    world.observe(world.record())

    gpu, cpu = (f'plugin_name="{t}",plugin_type="prefix-cache-scorer",tier="{t}"' for t in ("gpu", "cpu"))
    assert world.samples("llm_d_epp_prefix_indexer_hit_ratio_sum") == {gpu: 0.75, cpu: 1.0}
    assert world.samples("inference_extension_prefix_indexer_hit_bytes_sum") == {gpu: 768.0, cpu: 1024.0}


def test_a_prompt_without_a_full_block_has_no_ratio(world):
    decision = world.decision()
    decision.cycle.matches = {"gpu": type(decision.cycle.matches["gpu"])()}
    world.observe(world.record(decision=decision))

    assert set(count(world, "llm_d_epp_prefix_indexer_hit_ratio").values()) == {0.0}


def test_a_record_without_decision_or_endpoint_in_the_pool_has_no_match(world):
    record = world.record()
    world.observe(world.record(decision=None))
    world.table.remove(E1)
    world.observe(record)

    assert set(count(world, "llm_d_epp_prefix_indexer_hit_ratio").values()) == {0.0}


# --- labels -------------------------------------------------------------------------------------------------


def test_model_labels_are_capped_and_known_models_never_displaced(world):
    record = world.record(target_model="", endpoint=None, status=404)
    for n in range(5000):
        world.observe(msgspec.structs.replace(record, model=f"random-{n}"))
    world.observe(world.record())

    labels = world.samples("inference_objective_request_total")
    assert len(labels) == 1002
    assert labels['model_name="other",target_model_name="other"'] == 4000.0
    assert labels[M] == 1.0


def test_names_that_nobody_serves_have_counters_and_no_histograms(world):
    world.observe(
        world.record(
            model="gone",
            target_model="",
            endpoint=None,
            status=404,
            error="model_not_found",
            decision=None,
            decision_s=None,
        )
    )

    named = {line.partition("{")[0] for line in world.page().splitlines() if '"gone"' in line}
    assert named == {
        "llm_d_epp_request_total",
        "inference_objective_request_total",
        "llm_d_epp_request_error_total",
        "inference_objective_request_error_total",
    }


def test_within_the_cap_there_are_at_most_one_more_series_than_it_says():
    world = World(max_models=10)
    for n in range(50):
        world.observe(world.record(model="m" if n % 2 else f"x{n}", target_model=""))

    assert len(world.samples("inference_objective_request_total")) == 11


def test_fairness_ids_are_capped():
    world = World(max_fairness_ids=3)
    for n in range(10):
        world.observe(world.record(fairness_id=f"tenant-{n}"))

    assert len(world.samples("llm_d_epp_request_total")) == 4


# --- pool and endpoints -------------------------------------------------------------------------------------


def test_averages_are_not_truncated(world):
    world.scrape(0, waiting=1.0, running=2.0, kv_usage=0.25)
    world.scrape(1, waiting=2.0, running=2.0, kv_usage=0.75)

    name = 'name="fleet"'
    assert world.samples("inference_pool_average_queue_size") == {name: 1.5}
    assert world.samples("llm_d_epp_average_queue_size") == {name: 1.5}
    assert world.samples("llm_d_epp_std_dev_queue_size") == {name: 0.5}
    assert world.samples("inference_pool_average_running_requests") == {name: 2.0}
    assert world.samples("llm_d_epp_std_dev_running_requests") == {name: 0.0}
    assert world.samples("inference_pool_average_kv_cache_utilization") == {name: 0.5}
    assert world.samples("llm_d_epp_std_dev_kv_cache_utilization") == {name: 0.25}
    assert world.samples("inference_pool_ready_pods") == {name: 2.0}
    assert world.samples("inference_pool_per_pod_queue_size") == {
        f'{name},model_server_pod="{E1}"': 1.0,
        f'{name},model_server_pod="{E2}"': 2.0,
    }


def test_when_all_are_stale_none_is_ready_and_averages_are_absent(world):
    world.scrape(0, waiting=1.0, kv_usage=0.5)
    world.table.refresh_staleness(world.clock.monotonic() + 10, 2.0)

    assert world.samples("llm_d_epp_ready_endpoints") == {'name="fleet"': 0.0}
    assert world.samples("llm_d_epp_average_queue_size") == {}
    assert world.samples("llm_d_epp_std_dev_kv_cache_utilization") == {}
    assert world.samples("epp_endpoint_queue_size") == {}
    assert world.samples("epp_stale_endpoints") == {"": 2.0}
    assert world.samples("epp_endpoints") == {"": 2.0}
    assert world.samples("epp_endpoint_ready") == {f'endpoint="{E1}"': 1.0, f'endpoint="{E2}"': 1.0}


def test_endpoint_gauges(world):
    world.scrape(0, waiting=3.0, running=4.0, kv_usage=0.5)
    world.ledger.take(0, 700)
    world.clock.advance(1.5)

    e1 = f'endpoint="{E1}"'
    assert world.samples("epp_endpoint_queue_size") == {e1: 3.0}
    assert world.samples("epp_endpoint_running_requests") == {e1: 4.0}
    assert world.samples("epp_endpoint_kv_cache_utilization") == {e1: 0.5}
    assert world.samples("epp_endpoint_inflight_requests") == {e1: 1.0, f'endpoint="{E2}"': 0.0}
    assert world.samples("epp_endpoint_inflight_uncached_tokens") == {e1: 700.0, f'endpoint="{E2}"': 0.0}
    assert world.samples("epp_endpoint_metrics_age_seconds") == {e1: 1.5}
    assert world.samples("epp_inflight_requests") == {"": 1.0}
    flow = 'namespace="",producer_name="inflight-load-producer",fairness_id="default-flow",priority="0"'
    assert world.samples("llm_d_epp_inflight_requests")[f'endpoint_name="{E1}",{flow}'] == 1.0
    assert world.samples("llm_d_epp_inflight_tokens")[f'endpoint_name="{E1}",{flow}'] == 700.0


def test_the_engines_counters_are_passed_on_even_when_stale(world):
    world.scrape(0, prompt_tokens_total=900.0, cached_tokens_by_source={"device": 500.0, "host": 20.0})
    world.table.refresh_staleness(world.clock.monotonic() + 10, 2.0)

    assert world.samples("epp_endpoint_prompt_tokens_total") == {f'endpoint="{E1}"': 900.0}
    assert world.samples("epp_endpoint_cached_tokens_total") == {
        f'endpoint="{E1}",source="device"': 500.0,
        f'endpoint="{E1}",source="host"': 20.0,
    }


def test_an_ejected_endpoint_is_named_with_its_cause(world):
    world.scrape(0, waiting=0.0)
    world.health.on_engine_down(world.table.endpoint(E1), world.clock.monotonic())

    assert world.samples("epp_endpoint_ejected") == {f'endpoint="{E1}",cause="engine-down"': 1.0}
    assert world.samples("epp_endpoint_ready") == {f'endpoint="{E1}"': 0.0, f'endpoint="{E2}"': 1.0}
    assert world.samples("llm_d_epp_ready_endpoints") == {'name="fleet"': 0.0}
    assert world.samples("epp_ejections_total")['cause="engine-down"'] == 1.0
    assert world.samples("epp_panic_mode") == {'model_name="m"': 0.0}


def test_a_draining_endpoint_is_not_ready(world):
    world.table.mark_draining(E1)

    assert world.samples("epp_endpoint_ready")[f'endpoint="{E1}"'] == 0.0


def test_panic_is_shown_by_base_model(world):
    world.table.set_models(E1, (ModelInfo("m"), ModelInfo("lora", parent="m")), 0.0)
    for who in (E1, E2):
        world.health.on_engine_down(world.table.endpoint(who), world.clock.monotonic())

    assert world.samples("epp_panic_mode") == {'model_name="m"': 1.0}


def test_series_of_a_removed_endpoint_disappear(world):
    world.scrape(
        0,
        waiting=1.0,
        running=1.0,
        kv_usage=0.1,
        prompt_tokens_total=5.0,
        cached_tokens_by_source={"device": 1.0},
    )
    world.observe(world.record(0))
    world.metrics.scrape_failed(E1, "refused")
    world.health.on_engine_down(world.table.endpoint(E1), world.clock.monotonic())
    assert E1 in world.page()

    world.table.remove(E1)

    page = world.page()
    assert E1 not in page
    assert '"10.0.0.1"' not in page


def test_an_endpoint_that_comes_back_starts_at_zero(world):
    world.observe(world.record(0))
    world.table.remove(E1)
    world.page()
    world.table.add(World.spec(0), 0.0)
    world.observe(world.record(0, predicted_gpu_tokens=1, predicted_cpu_tokens=0))

    assert world.samples("epp_endpoint_predicted_hit_tokens_total")[f'endpoint="{E1}",tier="gpu"'] == 1.0


def test_churn_without_scrapes_of_our_page_leaves_no_series_behind(world):
    for n in range(500):
        world.table.sync([World.spec(n)], 0.0)
        world.observe(world.record(n, decision=None))
        world.metrics.scrape_failed(address(n), "refused")

    assert len(world.metrics._requests._endpoints) == 1
    assert len(world.metrics._scrape_errors) == 1


def test_a_request_that_ends_while_the_page_is_made_is_in_what_is_still_to_come(world):
    slices = world.metrics.render_slices()
    first = next(slices)
    world.observe(world.record())

    page = b"".join([first, *slices]).decode()

    assert 'epp_requests_total{reason="complete",status="200"} 1\n' in page


def test_many_requests_are_counted_one_by_one_or_together_alike(world):
    together = World()
    records = [world.record(n % 2, usage=Usage(250 + n, n, 10 * n), ended_at=1001.0 + n) for n in range(300)]
    for record in records:
        world.observe(record)
    together.observe(*records)

    page, other = (
        [line for line in w.page().splitlines() if "process_" not in line] for w in (world, together)
    )
    assert page == other
    assert world.samples("llm_d_epp_request_total") == {FLOW: 300.0}
    assert count(world, "llm_d_epp_request_output_tokens") == {FLOW: 300.0}
    assert count(world, "llm_d_epp_request_ntpot_seconds") == {FLOW: 299.0}


@pytest.mark.parametrize("hidden", [{"endpoint": None}, {"decision_s": None}])
def test_what_one_request_lacks_is_observed_of_the_others(world, hidden):
    world.observe(world.record(), world.record(**hidden), world.record())

    sizes, decisions = count(world, "llm_d_epp_request_size_bytes"), count(world, "epp_decision_seconds")
    assert (sizes[FLOW], decisions[""]) == ((2.0, 3.0) if "endpoint" in hidden else (3.0, 2.0))


def test_a_page_that_was_begun_before_a_change_can_be_finished(world):
    world.observe(world.record(0))
    slices = world.metrics.render_slices()
    first = next(slices)
    world.table.sync([World.spec(0), World.spec(5)], 0.0)
    world.observe(world.record(5, decision=None, model="new", target_model="new"))

    page = b"".join([first, *slices]).decode()

    assert address(5) not in page
    assert 'endpoint_name="10.0.0.6"' not in page


# --- index, errors, build -----------------------------------------------------------------------------------


def test_the_index_is_shown_by_view_tier_and_endpoint(world):
    world.index = {("gpu", 0): (10, 640), ("gpu", 1): (5, 320), ("cpu", 0): (30, 1920)}

    view = 'plugin_name="gpu",plugin_type="prefix-cache-scorer",tier="gpu"'
    assert world.samples("llm_d_epp_prefix_indexer_size")[view] == 15.0
    assert world.samples("inference_extension_prefix_indexer_size")[view] == 15.0
    assert world.samples("epp_index_entries") == {
        f'view="gpu",tier="gpu",endpoint="{E1}"': 10.0,
        f'view="gpu",tier="gpu",endpoint="{E2}"': 5.0,
        f'view="cpu",tier="cpu",endpoint="{E1}"': 30.0,
        f'view="cpu",tier="cpu",endpoint="{E2}"': 0.0,
    }
    assert world.samples("epp_index_tokens")[f'view="cpu",tier="cpu",endpoint="{E1}"'] == 1920.0
    assert world.samples("epp_index_capacity_tokens")[f'view="cpu",tier="cpu",endpoint="{E2}"'] == 4000.0


def test_a_capacity_that_differs_from_the_engines_is_shown_as_a_ratio(world):
    assert world.samples("epp_index_capacity_mismatch_ratio") == {}

    world.mismatch = 1.6

    assert world.samples("epp_index_capacity_mismatch_ratio")[f'view="cpu",tier="cpu",endpoint="{E1}"'] == 1.6


def test_running_requests_are_summed_under_their_capped_labels():
    world = World(max_models=1)
    world.running = {
        ("m", "m", "default-flow", 0): 2,
        ("x", "x", "default-flow", 0): 3,
        ("y", "", "default-flow", 0): 4,
    }

    other = 'model_name="other",target_model_name="other",fairness_id="default-flow",priority="0"'
    assert world.samples("llm_d_epp_request_running") == {FLOW: 2.0, other: 7.0}
    assert world.samples("inference_objective_running_requests") == {
        'model_name="m"': 2.0,
        'model_name="other"': 7.0,
    }


def test_a_rejected_request_never_touches_the_running_gauge(world):
    for _ in range(10):
        world.observe(world.record(reason=EndReason.REJECTED, error="saturated", status=429, endpoint=None))

    assert world.samples("llm_d_epp_request_running") == {}


def test_scrape_errors_by_endpoint_and_in_total(world):
    world.metrics.scrape_failed(E1, "timeout")
    world.metrics.scrape_failed(E1, "timeout")
    world.metrics.scrape_failed(E2, "parse")

    assert world.samples("epp_scrape_errors_total") == {
        f'endpoint="{E1}",kind="timeout"': 2.0,
        f'endpoint="{E2}",kind="parse"': 1.0,
    }
    assert world.samples("llm_d_epp_datalayer_poll_errors_total") == {
        'source_type="metrics-data-source"': 3.0
    }
    assert world.samples("llm_d_inference_scheduler_datalayer_poll_errors_total") == {
        'source_type="metrics-data-source"': 3.0
    }


def test_failures_of_observers_are_counted(world):
    world.metrics.observer_failed("access-log")

    assert world.samples("epp_observer_errors_total") == {'observer="access-log"': 1.0}


def test_build_configuration_and_the_rest(world):
    assert world.samples("llm_d_epp_info") == {'commit="abc",build_ref="main"': 1.0}
    assert world.samples("inference_extension_info") == {'commit="abc",build_ref="main"': 1.0}
    assert world.samples("epp_build_info") == {'version="1.2.3",python_version="3.11.7"': 1.0}
    assert world.samples("epp_config_info") == {'hash="h4sh"': 1.0}
    assert world.samples("epp_buffered_bytes") == {"": 12345.0}
    assert world.samples("epp_access_log_lines_dropped_total") == {"": 6.0}
    assert world.samples("epp_bytes_per_token") == {'model_name="m"': 4.25}


def test_optional_sources_may_be_absent():
    world = World()
    sources = Sources(
        table=world.table,
        ledger=world.ledger,
        health=world.health,
        catalog=world.catalog,
        now=ManualClock().monotonic,
    )

    page = b"".join(Metrics(sources, BuildInfo("0")).render_slices()).decode()

    assert "epp_buffered_bytes 0\n" in page
    assert f'epp_build_info{{version="0",python_version="{platform.python_version()}"}} 1\n' in page


def test_rewrites_are_counted_by_rule_and_both_models(world):
    for asked in ("m", "m", None):
        world.observe(world.record(rewrite=Rewrite(asked, "m-v2", "canary")))

    expected = {
        'model_rewrite_name="canary",model_name="m",target_model="m-v2"': 2.0,
        'model_rewrite_name="canary",model_name="unknown",target_model="m-v2"': 1.0,
    }
    assert world.samples("llm_d_epp_model_rewrite_decisions_total") == expected
    assert world.samples("inference_extension_model_rewrite_decisions_total") == expected


def test_names_of_rewritten_models_over_the_cap_are_one():
    world = World(max_models=1, rewritten={"m-v2"})
    for asked in ("a", "b"):
        world.observe(world.record(rewrite=Rewrite(asked, "m-v2", "canary")))

    assert world.samples("llm_d_epp_model_rewrite_decisions_total") == {
        'model_rewrite_name="canary",model_name="other",target_model="m-v2"': 2.0,
    }
