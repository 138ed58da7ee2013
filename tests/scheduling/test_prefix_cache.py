"""prefix-cache-scorer against literal tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.errors import ConfigError
from epp.scheduling.contracts import PrefixMatch
from epp.scheduling.scorers.prefix_cache import PrefixCacheScorer, PrefixCacheScorerParameters
from tests.scheduling.builders import context, cycle, fleet


def scores(match, count=3, **parameters):
    scorer = PrefixCacheScorer("p", "gpu", **parameters)
    return list(scorer.score(cycle(fleet(count), matches={"gpu": match})))


@pytest.mark.parametrize(
    "segments, total, expected",
    [
        ((), 10, [0.0, 0.0, 0.0]),
        ((), 0, [0.0, 0.0, 0.0]),
        (((0b001, 10),), 10, [1.0, 0.0, 0.0]),
        (((0b111, 5),), 10, [0.5, 0.5, 0.5]),
        (((0b010, 5), (0b100, 10)), 10, [0.0, 0.5, 1.0]),
        (((0b001, 16), (0b010, 64)), 64, [0.25, 1.0, 0.0]),  # the longest match, not the first entry
        (((0b001, 12),), 10, [1.0, 0.0, 0.0]),
        (((0b001, 1),), 0, [0.0, 0.0, 0.0]),
    ],
)
def test_score_is_matched_over_hashed_blocks(segments, total, expected):
    assert scores(PrefixMatch(segments, total, 64.0)) == expected


def test_no_match_known_is_zero_for_all():
    assert list(PrefixCacheScorer("p", "gpu").score(cycle(fleet(2), matches={}))) == [0.0, 0.0]


def test_bits_of_endpoints_that_are_no_candidates_are_ignored():
    pool = fleet(4)
    match = PrefixMatch(((0b0110, 4), (0b1000, 8)), 8, 64.0)

    column = PrefixCacheScorer("p", "gpu").score(cycle((pool[0], pool[2]), matches={"gpu": match}))

    assert list(column) == [0.0, 0.5]


def test_match_of_fewer_than_min_blocks_is_zero():
    match = PrefixMatch(((0b001, 3), (0b010, 4)), 8, 64.0)

    assert scores(match, min_match_blocks=4) == [0.0, 0.5, 0.0]


@pytest.mark.parametrize(
    "weight, expected",
    [
        (0.0, [0.5, 1.0, 0.0]),
        (1.0, [0.25, 1.0, 0.0]),  # 4,096 and 8,192 tokens of 8,192, squared
        (0.5, [0.375, 1.0, 0.0]),
    ],
)
def test_length_of_the_match_takes_its_share(weight, expected):
    match = PrefixMatch(((0b001, 64), (0b010, 128)), 128, 64.0)

    assert scores(match, match_length_weight=weight) == expected


def test_length_beyond_the_scale_counts_as_the_scale():
    match = PrefixMatch(((0b001, 100),), 200, 64.0)

    assert scores(match, match_length_weight=1.0, match_length_scale_tokens=1000) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "named, producers, expected",
    [
        ("cpuPrefixProducer", ["cpuPrefixProducer"], "cpuPrefixProducer"),
        (None, ["gpu-prefix-cache-scorer"], "gpu-prefix-cache-scorer"),
        (None, ["approx-prefix-cache-producer"], "approx-prefix-cache-producer"),
        ("", ["approx-prefix-cache-producer"], "approx-prefix-cache-producer"),
        (None, [], "approx-prefix-cache-producer"),
    ],
)
def test_reads_the_named_producer_else_its_own_view_else_the_default(named, producers, expected):
    parameters = PrefixCacheScorerParameters(producer_name=named)

    scorer = PrefixCacheScorer.build("gpu-prefix-cache-scorer", parameters, context(producers))

    assert scorer.producer == expected


@pytest.mark.parametrize("producers, known", [(["cpu", "gpu"], "cpu, gpu"), ([], "none")])
def test_naming_a_producer_that_does_not_exist_is_an_error(producers, known):
    with pytest.raises(ConfigError) as caught:
        PrefixCacheScorer.build("p", PrefixCacheScorerParameters(producer_name="gpus"), context(producers))

    (problem,) = caught.value.problems
    assert problem.path == "plugins[p].parameters.prefixMatchInfoProducerName"
    assert problem.message == "no producer is named 'gpus'"
    assert problem.remedy == (
        f"declare an approx-prefix-cache-producer of that name; producers here: {known}"
    )


def test_factory_passes_parameters_on():
    parameters = PrefixCacheScorerParameters(
        match_length_weight=1.0, match_length_scale_tokens=128, min_match_blocks=2
    )
    scorer = PrefixCacheScorer.build("p", parameters, context(["p"]))
    match = PrefixMatch(((0b001, 1), (0b010, 2)), 4, 32.0)

    assert list(scorer.score(cycle(fleet(2), matches={"p": match}))) == [0.0, 0.25]


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=40),
    st.integers(0, 200),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1e4),
)
def test_scores_are_in_range(blocks, total, weight, block_tokens):
    masks = {}
    for slot, held in enumerate(blocks):
        if held:
            masks[held] = masks.get(held, 0) | 1 << slot
    match = PrefixMatch(tuple((mask, held) for held, mask in masks.items()), total, block_tokens)

    column = scores(match, len(blocks), match_length_weight=weight)

    assert len(column) == len(blocks)
    assert all(0.0 <= score <= 1.0 for score in column)
