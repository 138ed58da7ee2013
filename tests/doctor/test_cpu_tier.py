"""The CPU tier: whether it is there, and how large it is."""

import pytest

from epp.doctor import Severity
from tests.doctor.builders import (
    IDLE,
    LOAD_ONLY,
    NO_OFFLOAD,
    SEED,
    edited,
    found,
    models,
    seen,
    view,
    with_tier,
    without,
)

SIXTEEN = edited(IDLE, block_size="16")
QWEN_32B = models("Qwen/Qwen3-32B")


def test_a_cpu_view_without_offload_is_told():
    finding = found(seen(page=NO_OFFLOAD))["cpu-tier-absent"]

    assert finding.severity is Severity.WARNING
    assert finding.why.startswith("view cpu-prefix-cache-producer: predicts hits in a tier that is not there")
    assert "--kv-offloading-size" in finding.remedy


@pytest.mark.parametrize("version", ["0.15.1", "main"])
def test_an_engine_that_could_not_show_a_tier_proves_nothing(version):
    findings = found(seen(page=NO_OFFLOAD, version=version))

    assert "cpu-tier-absent" not in findings
    assert findings["cpu-tier-unproven"].severity is Severity.INFO


def test_a_connector_of_unknown_kind_proves_nothing():
    page = NO_OFFLOAD + '\nvllm:num_requests_kv_fetch_by_stage{engine="0",stage="in_progress"} 0\n'

    assert "cpu-tier-unproven" in found(seen(page=page))


@pytest.mark.parametrize(
    "line",
    [
        "lmcache:num_hit_tokens_total 0",
        'vllm:simple_kv_offload_used_blocks{engine="0"} 0',
        'vllm:prompt_tokens_cached_by_source_total{engine="0",source="host"} 32',
    ],
)
def test_a_tier_shows_itself_by_its_metrics_or_by_hits(line):
    page = without(NO_OFFLOAD, "vllm:prompt_tokens_cached_by_source_total") + line + "\n"

    findings = found(seen(page=page))

    assert not {"cpu-tier-absent", "cpu-tier-unproven"} & set(findings)


def test_the_tier_of_sglang_is_known_both_ways():
    without_tier = "sglang:num_queue_reqs 0\nsglang:page_size 16\nsglang:token_usage 0\n"
    with_one = without_tier + "sglang:hicache_host_total_tokens 409600\n"

    assert "cpu-tier-absent" in found(seen(page=without_tier))
    assert "cpu-tier-absent" not in found(seen(page=with_one))


def test_offload_without_a_cpu_view_is_told_with_what_to_write():
    findings = found(seen(page=with_tier(IDLE, 1000, tokens=32_000)), config=view("gpu"))

    finding = findings["cpu-tier-unscored"]
    assert finding.seen == "the page shows an offload tier of 1000 blocks (the engine tells)"
    assert "tier: cpu and lruCapacityPerServer: 1000, or autoTune: true" in finding.remedy


def test_offload_of_untold_size_without_a_cpu_view_is_told_too():
    finding = found(seen(), config=view("gpu"))["cpu-tier-unscored"]

    assert "tier: cpu and lruCapacityPerServer, and" in finding.remedy


def test_without_any_view_offload_does_not_matter():
    assert found(seen(), config=LOAD_ONLY) == {}


def test_the_size_that_the_engine_tells_is_compared():
    config = view("cpu", autoTune=False, lruCapacityPerServer=1600)

    finding = found(seen(page=with_tier(IDLE, 1000)), config=config)["cpu-capacity-differs"]

    assert finding.seen == "lruCapacityPerServer: 1600, the engine tells: 1000 blocks; 1.60 times"
    assert finding.why == "view held: predicts hits of evicted prefixes"
    assert finding.remedy == "lruCapacityPerServer: 1000 in the parameters of held"


@pytest.mark.parametrize(
    "parameters", [{"autoTune": True}, {"autoTune": False, "lruCapacityPerServer": 1050}]
)
def test_an_auto_tuned_or_fitting_size_is_fine(parameters):
    assert found(seen(page=with_tier(IDLE, 1000)), config=view("cpu", **parameters)) == {}


def test_a_size_is_computed_from_the_offload_flag_and_the_model():
    page = edited(SIXTEEN, kv_offloading_size="100")

    finding = found(seen(page=page, listed=QWEN_32B), config=view("cpu", lruCapacityPerServer=10_000))[
        "cpu-capacity-differs"
    ]

    assert finding.seen == (
        "lruCapacityPerServer: 10000, --kv-offloading-size 100 GiB ÷ 256 KiB a token of Qwen3-32B ÷ 16 tokens: "
        "25600 blocks; 0.39 times"
    )
    assert finding.why == "view held: forgets what is still held"


def test_fp8_halves_a_block():
    page = edited(SIXTEEN, kv_offloading_size="100", cache_dtype="fp8_e4m3")
    config = view("cpu", lruCapacityPerServer=25_600)

    assert (
        "51200 blocks" in found(seen(page=page, listed=QWEN_32B), config=config)["cpu-capacity-differs"].seen
    )


@pytest.mark.parametrize(
    ("labels", "listed"),
    [
        ({"kv_offloading_size": "100"}, models("house-model")),
        ({"kv_offloading_size": "100", "kv_offloading_backend": "lmcache"}, QWEN_32B),
        ({"kv_offloading_size": "0"}, QWEN_32B),
    ],
)
def test_a_size_that_cannot_be_computed_is_not_guessed(labels, listed):
    findings = found(seen(page=edited(SIXTEEN, **labels), listed=listed), config=view("cpu"))

    assert set(findings) == {"cpu-capacity-untold"}


def test_an_untold_size_is_told_in_bytes_of_a_known_model():
    findings = found(seen(page=SIXTEEN, listed=QWEN_32B), config=view("cpu"))

    assert "31250 blocks are 131.1 GB of Qwen3-32B's KV cache" in findings["cpu-capacity-untold"].seen


def test_the_newest_engines_tell_after_their_first_request():
    findings = found(seen(version="0.33.0"), config=view("cpu"))

    assert "--probe" in findings["cpu-capacity-pending"].remedy


def test_the_guides_41000_blocks_are_172_gb_for_the_guides_own_model():
    findings = found(seen(page=SIXTEEN, version="0.32.0", listed=QWEN_32B), config=SEED)

    finding = findings["cpu-capacity-seed"]
    assert finding.severity is Severity.WARNING
    assert finding.seen == (
        "lruCapacityPerServer: 41000, the guide's 100 GiB at 2.5 MiB a block; Qwen3-32B takes 4 MiB a block of 16 "
        "tokens: 100 GiB are 25600 blocks, and 41000 blocks take 172.0 GB"
    )
    assert finding.remedy.startswith(
        "lruCapacityPerServer: 25600 in the parameters of cpu-prefix-cache-scorer"
    )


def test_the_guides_82000_blocks_are_recognised_too():
    config = view("cpu", lruCapacityPerServer=82_000)

    finding = found(seen(page=SIXTEEN, listed=QWEN_32B), config=config)["cpu-capacity-seed"]

    assert "200 GiB are 51200 blocks" in finding.seen


def test_the_guides_constant_is_right_for_the_model_it_was_computed_for():
    config = view("cpu", lruCapacityPerServer=41_000)

    assert found(seen(page=SIXTEEN, listed=models("Qwen/Qwen3-14B")), config=config) == {}


def test_the_guides_constant_for_an_unknown_model_gets_the_formula():
    config = view("cpu", lruCapacityPerServer=41_000)

    assert "2 · layers · KV heads" in found(seen(page=SIXTEEN), config=config)["cpu-capacity-seed"].remedy


def test_the_guides_constant_is_told_even_without_a_tier():
    config = view("cpu", lruCapacityPerServer=41_000)

    assert set(found(seen(page=NO_OFFLOAD, listed=QWEN_32B), config=config)) == {
        "cpu-tier-absent",
        "cpu-capacity-seed",
    }


def test_a_tier_smaller_than_the_gpus_is_information():
    findings = found(seen(page=with_tier(IDLE, 100)), config=view("cpu"))

    assert findings["cpu-tier-small"].seen == "CPU tier 3200 tokens, GPU tier 8192"


def test_an_untold_gpu_size_is_not_compared_with_the_cpu_tier():
    page = edited(with_tier(IDLE, 100), kv_cache_size_tokens="None", num_gpu_blocks="None")

    assert found(seen(page=page), config=view("cpu")) == {}
