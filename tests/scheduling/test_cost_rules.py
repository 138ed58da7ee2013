"""Rules of other routers, against literal tables."""

import random

import pytest

from epp.scheduling.contracts import PrefixMatch
from epp.scheduling.filters.prefix_affinity import PrefixAffinityFilter, PrefixAffinityParameters
from epp.scheduling.producers.matched import held_tokens
from epp.scheduling.registry import NoParameters
from epp.scheduling.scorers.cache_aware import CacheAwareParameters, CacheAwareScorer
from epp.scheduling.scorers.consistent_hash import ConsistentHashParameters, ConsistentHashScorer
from epp.scheduling.scorers.kv_overlap_cost import KvOverlapCostParameters, KvOverlapCostScorer
from epp.scheduling.scorers.lmetric import LmetricScorer
from tests.scheduling.builders import context, cycle, fleet, ledger

HALF_AT_1 = {"gpu": PrefixMatch(((0b10, 5),), 10, 100.0)}


def kept(found):
    return [endpoint.slot for endpoint in found]


# -------------------------------------------------------------------- matches by tier


def test_matches_are_told_apart_by_tier_and_the_longest_counts():
    matches = {
        "gpu": PrefixMatch(((0b01, 3), (0b10, 1)), 10, 100.0),
        "other": PrefixMatch(((0b11, 2),), 10, 100.0),
        "cpu": PrefixMatch(((0b10, 20),), 20, 100.0),
    }
    matched = held_tokens(cycle(fleet(3), matches=matches), frozenset({"cpu"}))

    assert [matched.gpu(slot) for slot in range(3)] == [300.0, 200.0, 0.0]
    assert [matched.cpu(slot) for slot in range(3)] == [0.0, 1000.0, 0.0]  # no more than the prompt
    assert [matched.most(slot) for slot in range(3)] == [300.0, 1000.0, 0.0]


# -------------------------------------------------------------------- LMetric


def test_lmetric_multiplies_new_tokens_and_requests():
    """(0 + 1000) * 1 against (499 + 500) * 2 and (0 + 1000) * 4."""
    plugin = LmetricScorer.build("l", NoParameters(), context())
    book = ledger(requests=[0, 1, 3], tokens=[0, 499, 0])

    assert plugin.score(cycle(fleet(3), matches=HALF_AT_1, ledger=book)) == [1.0, 1001 / 1999, 1001 / 4001]


# -------------------------------------------------------------------- Dynamo


def test_the_overlap_cost_adds_prefill_and_blocks_in_use():
    """1000 / 16 blocks against 500 / 16 + 800 / 16, and a stale endpoint of which nothing is known."""
    plugin = KvOverlapCostScorer.build("k", KvOverlapCostParameters(), context())
    pool = fleet(3, kv_usage=[0.0, 0.5, None], gpu_capacity_tokens=[1600, 1600, None])
    scores = plugin.score(cycle(pool, matches=HALF_AT_1))

    assert scores == [1.0, 63.5 / 82.25, 1.0]


def test_its_weight_counts_prefill_more():
    plugin = KvOverlapCostScorer.build("k", KvOverlapCostParameters(overlap_weight=4.0), context())
    pool = fleet(2, kv_usage=[0.0, 0.5], gpu_capacity_tokens=[1600, 1600])

    assert plugin.score(cycle(pool, matches=HALF_AT_1)) == [176.0 / 251.0, 1.0]


# -------------------------------------------------------------------- SGLang


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([10, 10, 12], [0.0, 1.0, 0.0]),  # balanced: the longest match
        ([1, 99, 3], [1.0, 0.0, 0.0]),  # out of balance: the least load
        ([60, 124, 60], [0.0, 1.0, 0.0]),  # 64 apart is not above 64
        ([200, 290, 200], [0.0, 1.0, 0.0]),  # not above 1.5 times
    ],
)
def test_either_load_or_cache_decides(requests, expected):
    plugin = CacheAwareScorer.build("c", CacheAwareParameters(), context())

    assert plugin.score(cycle(fleet(3), matches=HALF_AT_1, ledger=ledger(requests=requests))) == expected


def test_a_short_match_decides_nothing():
    plugin = CacheAwareScorer("c", parameters=CacheAwareParameters(cache_threshold=0.5))
    book = ledger(requests=[2, 3, 2])

    assert plugin.score(cycle(fleet(3), matches=HALF_AT_1, ledger=book)) == [1.0, 0.0, 1.0]


# -------------------------------------------------------------------- consistent hashing


def hashed(requests, chain=(77,), prompt_tokens=1000):
    plugin = ConsistentHashScorer.build("h", ConsistentHashParameters(), context())
    return plugin.score(
        cycle(fleet(3), ledger=ledger(requests=requests), chain=chain, prompt_tokens=prompt_tokens)
    )


def test_the_same_head_has_the_same_order_of_endpoints():
    assert hashed([0, 0, 0]) == [0.25, 1.0, 0.5]
    assert hashed([0, 0, 0], chain=(77, 1, 2)) == [0.25, 1.0, 0.5]
    assert hashed([0, 0, 0], chain=(79,)) != [0.25, 1.0, 0.5]


def test_an_endpoint_at_the_bound_is_passed_over():
    """Bound: ceil(1.25 * 5 / 3) = 3."""
    assert hashed([0, 3, 1]) == [0.5, 0.0, 1.0]


def test_a_prompt_without_a_block_is_placed_by_its_length():
    assert hashed([0, 0, 0], chain=(), prompt_tokens=5) == hashed([0, 0, 0], chain=(), prompt_tokens=5)


# -------------------------------------------------------------------- llm-d's affinity filter


def affinity(tokens=(0, 0, 0), matches=None, **parameters):
    plugin = PrefixAffinityFilter.build("a", PrefixAffinityParameters(**parameters), context())
    assert plugin.volatility == "request"
    return kept(plugin.filter(cycle(fleet(3), matches=matches or {}, ledger=ledger(tokens=tokens))))


MOST_AT_1 = {"gpu": PrefixMatch(((0b10, 8), (0b01, 7)), 10, 100.0)}


def test_endpoints_that_hold_most_of_the_prompt_are_kept():
    assert affinity(matches=MOST_AT_1) == [1]


def test_all_are_kept_when_none_holds_it():
    assert affinity() == [0, 1, 2]
    assert affinity(matches=HALF_AT_1) == [0, 1, 2]


def test_all_are_kept_when_all_hold_it():
    assert affinity(matches={"gpu": PrefixMatch(((0b111, 9),), 10, 100.0)}) == [0, 1, 2]


@pytest.mark.parametrize(("tokens", "expected"), [(1_000, [1]), (1_001, [0, 1, 2])])
def test_all_are_kept_when_its_holders_are_too_late(tokens, expected):
    """1,000 tokens at 1,000 a second are one second."""
    found = affinity((0, tokens, 0), MOST_AT_1, max_ttft_penalty_ms=1000.0, peak_prefill_throughput=1000.0)

    assert found == expected


def test_a_share_of_requests_explores():
    plugin = PrefixAffinityFilter(
        "a", random.Random(1), parameters=PrefixAffinityParameters(exploration_probability=0.5)
    )
    kept_counts = [len(plugin.filter(cycle(fleet(3), matches=MOST_AT_1))) for _ in range(100)]

    assert 30 < kept_counts.count(3) < 70
    assert set(kept_counts) == {1, 3}
