"""Endpoints among each other, and the settings of the router."""

import pytest

from epp.config.model_rewrites import ModelRewrite
from epp.config.settings import MetricsSettings, Settings, UpstreamSettings
from epp.doctor import Answer
from tests.doctor.builders import (
    DEFAULT,
    HEAD,
    IDLE,
    LOAD_ONLY,
    edited,
    examine,
    found,
    load_config,
    models,
    seen,
    without,
)

LATER = IDLE.replace(
    "process_start_time_seconds 1.79604139718e+09", "process_start_time_seconds 1.79604139719e+09"
)
SGLANG = "sglang:num_queue_reqs 0\nsglang:token_usage 0\nprocess_start_time_seconds 5\n"


def pool_codes(*pool, settings=None):
    """Codes that concern the pool."""
    return [f.code for f in examine(pool, LOAD_ONLY, settings or Settings()) if not f.endpoint]


def test_alike_endpoints_are_fine():
    assert pool_codes(seen(1), seen(2, page=LATER)) == []


def test_an_empty_pool_is_fine():
    assert pool_codes() == []


def test_one_server_under_two_addresses_is_found():
    finding = found(seen(1), seen(2), config=LOAD_ONLY)["same-server-twice"]

    assert finding.endpoint == ""
    assert finding.seen.endswith("are the same at 10.0.0.1:8000, 10.0.0.2:8000")


def test_servers_without_a_start_time_are_not_taken_for_one():
    page = without(IDLE, "process_start_time_seconds")

    assert pool_codes(seen(1, page=page), seen(2, page=page)) == []


def test_engines_may_differ_and_their_versions_are_not_compared():
    assert pool_codes(seen(1), seen(2, page=SGLANG, version="0.5.9")) == ["engines-differ"]


def test_versions_of_one_engine_are_compared():
    finding = found(seen(1), seen(2, page=LATER, version="0.31.0"), config=LOAD_ONLY)["versions-differ"]

    assert finding.seen == "vllm 0.32.0 at 10.0.0.1:8000; 0.31.0 at 10.0.0.2:8000"


def test_base_models_are_compared():
    finding = found(seen(1), seen(2, page=LATER, listed=models("big")), config=LOAD_ONLY)["models-differ"]

    assert finding.seen == "tiny at 10.0.0.1:8000; big at 10.0.0.2:8000"


def test_adapters_of_one_base_model_are_compared():
    listed = models("tiny") + models("sql", parent="tiny")

    finding = found(seen(1), seen(2, page=LATER, listed=listed), config=LOAD_ONLY)["adapters-differ"]

    assert finding.seen == "tiny with no adapter at 10.0.0.1:8000; sql at 10.0.0.2:8000"


def test_context_lengths_of_one_model_are_compared():
    findings = found(seen(1), seen(2, page=LATER, listed=models("tiny", length=8192)), config=LOAD_ONLY)

    assert (
        findings["context-differs"].seen
        == "max_model_len of tiny: 4096 at 10.0.0.1:8000; 8192 at 10.0.0.2:8000"
    )


@pytest.mark.parametrize("length", [None, "long"])
def test_an_untold_context_length_is_not_compared(length):
    assert pool_codes(seen(1), seen(2, page=LATER, listed=models("tiny", length=length))) == []


def test_block_sizes_are_compared():
    assert pool_codes(seen(1), seen(2, page=edited(LATER, block_size="16"))) == ["block-sizes-differ"]


@pytest.mark.parametrize(("tokens", "codes"), [("8900", []), ("9100", ["capacities-differ"])])
def test_capacities_are_compared_with_a_tenth_tolerated(tokens, codes):
    assert pool_codes(seen(1), seen(2, page=edited(LATER, kv_cache_size_tokens=tokens))) == codes


def test_of_many_addresses_a_few_are_shown():
    pool = [seen(number) for number in range(1, 7)]

    assert found(*pool, config=LOAD_ONLY)["same-server-twice"].seen.endswith(
        "at 10.0.0.1:8000, 10.0.0.2:8000, 10.0.0.3:8000, 10.0.0.4:8000 and 2 more"
    )


@pytest.mark.parametrize(
    ("keep_alive_s", "codes"),
    [(3.0, []), (4.9, []), (5.0, ["keep-alive-too-long"]), (0.0, ["keep-alive-off"])],
)
def test_keep_alive_stays_below_that_of_vllm(keep_alive_s, codes):
    settings = Settings(upstream=UpstreamSettings(keep_alive_s=keep_alive_s))

    assert pool_codes(seen(), settings=settings) == codes


@pytest.mark.parametrize(("told_s", "codes"), [(2.0, ["keep-alive-too-long"]), (75.0, [])])
def test_what_a_server_says_of_its_keep_alive_counts_more(told_s, codes):
    assert pool_codes(seen(health=Answer(200, keep_alive_s=told_s))) == codes


def test_other_engines_say_nothing_of_their_keep_alive():
    settings = Settings(upstream=UpstreamSettings(keep_alive_s=30.0))

    assert pool_codes(seen(page=SGLANG), settings=settings) == []


@pytest.mark.parametrize(
    ("metrics", "codes"),
    [
        (MetricsSettings(refresh_interval_s=1.0), []),
        (MetricsSettings(refresh_interval_s=2.0), ["scrape-interval-long"]),
        (MetricsSettings(staleness_threshold_s=10.0), []),
        (MetricsSettings(staleness_threshold_s=11.0), ["staleness-long"]),
    ],
)
def test_load_is_read_often_and_not_believed_for_long(metrics, codes):
    assert pool_codes(seen(), settings=Settings(metrics=metrics)) == codes


@pytest.mark.parametrize(
    ("targets", "codes"),
    [((("tiny", 1),), []), ((("tiny", 9), ("gone", 1)), ["rewrite-target-unserved"])],
)
def test_a_model_is_rewritten_to_one_that_somebody_serves(targets, codes):
    settings = Settings(model_rewrite=(ModelRewrite("old", targets),))

    assert pool_codes(seen(), settings=settings) == codes


def test_where_models_are_not_told_no_target_is_missed():
    settings = Settings(model_rewrite=(ModelRewrite("old", (("gone", 1),)),))

    assert "rewrite-target-unserved" not in pool_codes(seen(models_list=Answer(404)), settings=settings)


def test_scrapes_do_not_matter_when_no_scorer_reads_them():
    config = load_config(HEAD + "plugins:\n- type: active-request-scorer\n")
    settings = Settings(metrics=MetricsSettings(refresh_interval_s=60.0, staleness_threshold_s=600.0))

    assert examine([seen()], config, settings) == ()


def test_findings_come_by_endpoint_then_for_the_pool():
    endpoints = [f.endpoint for f in examine([seen(1), seen(2)], DEFAULT, Settings())]

    assert endpoints == ["10.0.0.1:8000", "10.0.0.2:8000", ""]
