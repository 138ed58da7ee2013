"""What a tier's view is worth."""

import pytest

from epp.director.views import (
    Tier,
    TierView,
    capacity_mismatch,
    capacity_tokens,
    hit_tokens,
    predicted_hits,
)
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec
from epp.scheduling.contracts import PrefixMatch


def view(tier=Tier.GPU, *, auto_tune=True, capacity_blocks=41_000, name=None):
    return TierView(name or tier.value, 0, tier, 256, None, auto_tune, capacity_blocks)


def endpoint(**metrics):
    spec = EndpointSpec("http", "10.0.0.1", 8000)
    return Endpoint(0, 1, spec, metrics=EndpointMetrics(**metrics) if metrics else None)


def test_configured_capacity_counts_engine_blocks_of_the_size_that_metrics_tell():
    assert capacity_tokens(view(), endpoint()) == 656_000  # 41,000 blocks of 16 tokens
    assert capacity_tokens(view(), endpoint(block_tokens=32)) == 1_312_000


def test_auto_tune_takes_the_reported_size_of_its_own_tier():
    told = endpoint(gpu_capacity_tokens=148_336, cpu_capacity_tokens=400_000)

    assert capacity_tokens(view(Tier.GPU), told) == 148_336
    assert capacity_tokens(view(Tier.CPU), told) == 400_000


def test_an_explicit_capacity_beats_what_the_engine_reports():
    told = endpoint(gpu_capacity_tokens=148_336)

    assert capacity_tokens(view(auto_tune=False), told) == 656_000


@pytest.mark.parametrize(("reported", "mismatch"), [(656_000, None), (600_000, None), (409_600, 1.6015625)])
def test_a_capacity_that_is_over_a_tenth_off_is_told(reported, mismatch):
    cpu = view(Tier.CPU, auto_tune=False)

    assert capacity_mismatch(cpu, endpoint(cpu_capacity_tokens=reported)) == mismatch


def test_without_a_report_there_is_no_mismatch():
    assert capacity_mismatch(view(), endpoint()) is None


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (1000, 624),  # 10 blocks of 63 tokens are 630, down to a multiple of 16
        (630, 624),
        (625, 624),
        (624, 608),  # the last token of the prompt is always computed
        (1, 0),
    ],
)
def test_a_hit_is_rounded_down_to_the_engine_block_and_to_prompt_minus_one(prompt, expected):
    match = PrefixMatch(((0b1, 10),), 12, 63.0)

    assert hit_tokens(view(), endpoint(), match, prompt) == expected


def test_a_hit_lands_on_the_tiers_own_unit():
    match = PrefixMatch(((0b1, 10),), 12, 63.0)
    told = endpoint(block_tokens=16, hit_unit_tokens=32, cpu_hit_unit_tokens=256)

    assert hit_tokens(view(Tier.GPU), told, match, 1000) == 608
    assert hit_tokens(view(Tier.CPU), told, match, 1000) == 512


def test_the_cpu_tier_serves_what_reaches_beyond_the_gpu_hit():
    matches = {"gpu": PrefixMatch(((0b1, 2),), 8, 64.0), "cpu": PrefixMatch(((0b1, 6),), 8, 64.0)}

    hits = predicted_hits([view(Tier.GPU), view(Tier.CPU)], endpoint(), matches, 600)

    assert hits == {Tier.GPU: 128, Tier.CPU: 256}


def test_a_pool_with_one_tier_predicts_that_tier_alone():
    matches = {"gpu": PrefixMatch(((0b1, 2),), 8, 64.0)}

    assert predicted_hits([view(Tier.GPU)], endpoint(), matches, 600) == {Tier.GPU: 128}
