"""The metrics page: its presence, its names, its values, its age."""

import pytest

from epp.config.settings import MetricsSettings, Settings
from epp.doctor import Answer, Severity
from tests.doctor.builders import (
    BUSY,
    DEFAULT,
    HEAD,
    IDLE,
    LOAD_ONLY,
    TIMED_OUT,
    found,
    load_config,
    seen,
    without,
)


def test_the_page_of_a_busy_server_needs_nothing_either():
    assert set(found(seen(page=BUSY))) == {"cpu-capacity-untold"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [(Answer(404), "/metrics answered 404"), (TIMED_OUT, "/metrics: not complete within 5 s")],
)
def test_a_missing_page_blinds_the_scorers_by_name(answer, told):
    finding = found(seen(page=answer), config=LOAD_ONLY)["metrics-unanswered"]

    assert finding.severity is Severity.ERROR
    assert finding.seen == told
    assert finding.why.startswith("queue-scorer, kv-cache-utilization-scorer is neutral")


def test_a_missing_page_is_an_error_even_when_no_scorer_reads_it():
    config = load_config(HEAD + "plugins:\n- type: active-request-scorer\n")

    finding = found(seen(page=Answer(404)), config=config)["metrics-unanswered"]

    assert finding.why == "tier sizes, block size and restarts are unknown"


def test_a_page_that_is_none_is_unreadable():
    finding = found(seen(page="<html><body>hello</body></html>"))["metrics-unreadable"]

    assert finding.severity is Severity.ERROR
    assert finding.seen.startswith("/metrics: not a line of metrics: '<html>")


def test_a_page_of_no_engine_is_told_with_what_it_has():
    finding = found(seen(page="go_goroutines 7\nup 1\n"))["engine-unknown"]

    assert finding.seen == "/metrics: 2 names, none of vLLM, SGLang or TensorRT-LLM"


def test_names_that_lost_their_colon_are_recognised():
    finding = found(seen(page=IDLE.replace("vllm:", "vllm_")))["engine-unknown"]

    assert "vllm_admission_rejections_created and no name with a colon" in finding.seen
    assert "rewritten" in finding.remedy


def test_each_metric_that_a_scorer_reads_is_missed_by_name():
    finding = found(seen(page=without(IDLE, "vllm:kv_cache_usage_perc")), config=LOAD_ONLY)["metric-missing"]

    assert finding.severity is Severity.ERROR
    assert finding.seen == "/metrics has none of vllm:kv_cache_usage_perc, vllm:gpu_cache_usage_perc"
    assert finding.why.startswith("kv-cache-utilization-scorer is neutral")


def test_a_metric_that_no_scorer_reads_is_not_missed():
    assert "metric-missing" not in found(
        seen(page=without(IDLE, "vllm:num_requests_waiting")), config=DEFAULT
    )


def test_selectors_with_labels_are_shown_whole():
    page = 'nv_trt_llm_request_metrics{request_type="scheduled"} 1\n'
    config = load_config(HEAD + "plugins:\n- type: queue-scorer\n")

    finding = found(seen(page=page), config=config)["metric-missing"]

    assert finding.seen == '/metrics has none of nv_trt_llm_request_metrics{request_type="waiting"}'
    assert finding.remedy.startswith("switch the engine's metrics on")


def test_running_requests_are_missed_by_their_scorer():
    config = load_config(HEAD + "plugins:\n- type: running-requests-size-scorer\n  name: running\n")

    finding = found(seen(page=without(IDLE, "vllm:num_requests_running")), config=config)["metric-missing"]

    assert finding.why.startswith("running is neutral")


def test_a_scorer_outside_every_profile_misses_nothing():
    config = load_config(
        HEAD
        + "plugins:\n- type: queue-scorer\n- type: kv-cache-utilization-scorer\n"
        + "schedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: queue-scorer\n"
    )

    assert "metric-missing" not in found(seen(page=without(IDLE, "vllm:kv_cache_usage_perc")), config=config)


def test_an_old_name_is_read_and_told():
    page = IDLE.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")

    findings = found(seen(page=page))

    assert "metric-missing" not in findings
    assert findings["metric-renamed"].seen == "vllm:gpu_cache_usage_perc, not vllm:kv_cache_usage_perc"


def test_an_old_name_beside_the_new_one_is_no_finding():
    page = IDLE + 'vllm:gpu_cache_usage_perc{engine="0",model_name="tiny"} 0.0\n'

    assert "metric-renamed" not in found(seen(page=page))


def test_a_value_that_cannot_be_true_is_told_and_not_missed():
    page = IDLE.replace(
        'vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0',
        'vllm:num_requests_waiting{engine="0",model_name="tiny"} NaN',
    )

    findings = found(seen(page=page), config=LOAD_ONLY)

    assert "metric-missing" not in findings
    assert findings["metric-impossible"].seen.startswith("waiting is NaN")


@pytest.mark.parametrize(
    ("took_s", "interval_s", "slow"), [(0.6, None, True), (0.4, None, False), (0.6, 0.7, False)]
)
def test_a_page_slower_than_the_interval_is_told(took_s, interval_s, slow):
    settings = Settings(metrics=MetricsSettings(refresh_interval_s=interval_s))
    page = Answer(200, IDLE.encode(), took_s=took_s)

    assert ("metrics-slow" in found(seen(page=page), settings=settings)) is slow


def test_a_page_without_a_start_time_hides_restarts():
    assert "restart-untold" in found(seen(page=without(IDLE, "process_start_time_seconds")))
