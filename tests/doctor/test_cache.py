"""The GPU tier: caching, block borders, capacity."""

import pytest

from epp.doctor import Severity
from tests.doctor.builders import IDLE, LOAD_ONLY, edited, found, seen, view, with_tier, without


def test_prefix_caching_that_is_off_is_an_error_for_views():
    page = edited(IDLE, enable_prefix_caching="False")

    finding = found(seen(page=page))["prefix-caching-off"]

    assert finding.severity is Severity.ERROR
    assert finding.why.startswith("views gpu-prefix-cache-producer, cpu-prefix-cache-producer:")
    assert "--enable-prefix-caching" in finding.remedy


def test_without_a_view_caching_does_not_matter():
    page = edited(IDLE, enable_prefix_caching="False", num_gpu_blocks="None", block_size="None")

    assert found(seen(page=page), config=LOAD_ONLY) == {}


def test_an_untold_block_is_told_as_the_one_that_is_assumed():
    page = without(IDLE, "vllm:cache_config_info")

    findings = found(seen(page=page), config=view("gpu"))

    assert set(findings) == {"block-size-untold", "gpu-capacity-untold", "cpu-tier-unscored"}
    assert (
        findings["block-size-untold"].why
        == "view held: blocks of 16 tokens are assumed for capacities and hits"
    )
    assert findings["gpu-capacity-untold"].seen == (
        "no capacity on /metrics; lruCapacityPerServer: 31250 is used, 500000 tokens"
    )


@pytest.mark.parametrize(
    ("tokens", "labels", "remedy"),
    [
        (48, {}, "blockSizeTokens: 64 "),
        (80, {}, "blockSizeTokens: 96 "),
        (96, {"hash_block_size": "64"}, "blockSizeTokens: 128 "),
        (96, {"cache_hit_alignment_tokens": "128"}, "blockSizeTokens: 128 "),
    ],
)
def test_borders_that_do_not_meet_are_told_with_a_multiple(tokens, labels, remedy):
    finding = found(seen(page=edited(IDLE, **labels)), config=view("gpu", blockSizeTokens=tokens))[
        "block-misaligned"
    ]

    assert finding.severity is Severity.WARNING
    assert finding.remedy.startswith(remedy)


def test_borders_of_the_cpu_tier_are_those_of_its_chunks():
    page = with_tier(IDLE, 100, blocks_per_chunk=3)

    finding = found(seen(page=page))["block-misaligned"]

    assert finding.seen == (
        "engine blocks of 32 tokens, hits on multiples of 96; view cpu-prefix-cache-producer hashes 256 bytes = 64 tokens"
    )
    assert finding.remedy.startswith("blockSizeTokens: 96 in the parameters of cpu-prefix-cache-producer")


@pytest.mark.parametrize("tokens", [16, 32, 64, 256])
def test_borders_meet_when_one_block_is_a_multiple_of_the_other(tokens):
    assert "block-misaligned" not in found(seen(), config=view("gpu", blockSizeTokens=tokens))


def test_blocks_below_a_token_do_not_break_the_check():
    assert "block-misaligned" not in found(seen(), config=view("gpu", blockSize=2))


def test_huge_blocks_of_hybrid_models_are_information():
    findings = found(seen(page=edited(IDLE, block_size="784", cache_hit_alignment_tokens="784")))

    assert "block-misaligned" not in findings
    assert findings["block-huge"].seen == "hits land on multiples of 784 tokens"
    assert findings["block-huge"].severity is Severity.INFO


@pytest.mark.parametrize(
    ("blocks", "told", "why"),
    [
        (512, "16384 tokens, the engine has 8192: 2.00 times", "predicts hits of evicted prefixes"),
        (128, "4096 tokens, the engine has 8192: 0.50 times", "forgets what is still held"),
    ],
)
def test_a_configured_capacity_is_compared_with_the_engines(blocks, told, why):
    config = view("gpu", autoTune=False, lruCapacityPerServer=blocks)

    finding = found(seen(), config=config)["gpu-capacity-differs"]

    assert finding.seen.endswith(told)
    assert finding.why == f"view held: {why}"
    assert "lruCapacityPerServer: 256" in finding.remedy


@pytest.mark.parametrize("blocks", [231, 256, 281])
def test_a_tenth_is_tolerated(blocks):
    config = view("gpu", autoTune=False, lruCapacityPerServer=blocks)

    assert "gpu-capacity-differs" not in found(seen(), config=config)


def test_an_untold_capacity_matters_only_to_auto_tuning():
    page = edited(IDLE, kv_cache_size_tokens="None", num_gpu_blocks="None")

    assert "gpu-capacity-untold" not in found(seen(page=page), config=view("gpu", autoTune=False))
