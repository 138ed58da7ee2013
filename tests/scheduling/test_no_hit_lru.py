"""no-hit-lru-scorer against literal tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.errors import ConfigError
from epp.scheduling.contracts import PickObserver, PrefixMatch
from epp.scheduling.scorers.no_hit_lru import NoHitLruParameters, NoHitLruScorer
from tests.scheduling.builders import context, cycle, endpoint, fleet


def held_by(mask, blocks=1):
    return PrefixMatch(((mask, blocks),), 10, 64.0)


def test_a_known_prefix_gives_half_to_all():
    column = NoHitLruScorer("n").score(cycle(fleet(3), matches={"gpu": held_by(0b010)}))

    assert list(column) == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "count, expected", [(1, [1.0]), (2, [1.0, 0.0]), (3, [1.0, 0.5, 0.0]), (5, [1.0, 0.75, 0.5, 0.25, 0.0])]
)
def test_cold_and_never_picked_rank_in_candidate_order(count, expected):
    assert list(NoHitLruScorer("n").score(cycle(fleet(count)))) == expected


def test_cold_picks_rank_after_the_never_picked_oldest_first():
    pool, scorer = fleet(5), NoHitLruScorer("n")
    for picked in (pool[3], pool[0], pool[1], pool[3]):
        scorer.on_picked(cycle(pool), picked)

    # never picked: 2, 4; then by age: 0, 1, 3
    assert list(scorer.score(cycle(pool))) == [0.5, 0.25, 1.0, 0.0, 0.75]


def test_a_pick_of_a_known_prefix_is_not_remembered():
    pool, scorer = fleet(2), NoHitLruScorer("n")

    scorer.on_picked(cycle(pool, matches={"gpu": held_by(0b01)}), pool[0])

    assert list(scorer.score(cycle(pool))) == [1.0, 0.0]


def test_endpoints_that_are_gone_do_not_push_others_down():
    pool, scorer = fleet(3), NoHitLruScorer("n")
    for picked in pool:
        scorer.on_picked(cycle(pool), picked)

    assert list(scorer.score(cycle(pool[1:]))) == [1.0, 0.0]


def test_a_restarted_endpoint_counts_as_never_picked():
    pool, scorer = fleet(2), NoHitLruScorer("n")
    scorer.on_picked(cycle(pool), pool[0])

    assert list(scorer.score(cycle(pool))) == [0.0, 1.0]
    assert list(scorer.score(cycle((endpoint(0, incarnation=2), pool[1])))) == [1.0, 0.0]


def test_memory_holds_lru_size_endpoints():
    pool, scorer = fleet(3), NoHitLruScorer("n", lru_size=2)
    for picked in pool:
        scorer.on_picked(cycle(pool), picked)

    assert list(scorer.score(cycle(pool))) == [1.0, 0.5, 0.0]


def test_a_prefix_held_only_by_endpoints_that_are_no_candidates_is_cold():
    pool = fleet(3)

    column = NoHitLruScorer("n").score(cycle(pool[:2], matches={"gpu": held_by(0b100)}))

    assert list(column) == [1.0, 0.0]


def test_any_producer_makes_a_request_known_unless_one_is_named():
    matches = {"gpu": PrefixMatch((), 10, 64.0), "cpu": held_by(0b01)}
    of_all = NoHitLruScorer.build("n", NoHitLruParameters(), context(["gpu", "cpu"]))
    of_gpu = NoHitLruScorer.build("n", NoHitLruParameters(producer_name="gpu"), context(["gpu", "cpu"]))

    assert list(of_all.score(cycle(fleet(2), matches=matches))) == [0.5, 0.5]
    assert list(of_gpu.score(cycle(fleet(2), matches=matches))) == [1.0, 0.0]


def test_naming_a_producer_that_does_not_exist_is_an_error():
    with pytest.raises(ConfigError, match=r"plugins\[n\].*no producer is named 'x'"):
        NoHitLruScorer.build("n", NoHitLruParameters(producer_name="x"), context(["gpu"]))


def test_it_observes_picks():
    assert isinstance(NoHitLruScorer("n"), PickObserver)


@given(st.integers(1, 8), st.lists(st.integers(0, 7), max_size=30))
def test_cold_scores_are_a_permutation_of_even_steps(count, picks):
    pool, scorer = fleet(count), NoHitLruScorer("n", lru_size=4)
    for slot in picks:
        scorer.on_picked(cycle(pool), pool[slot % count])

    column = list(scorer.score(cycle(pool)))

    steps = [1.0] if count == 1 else [1.0 - rank / (count - 1) for rank in range(count)]
    assert sorted(column, reverse=True) == steps


@given(st.integers(2, 8))
def test_cold_requests_go_round(count):
    pool, scorer = fleet(count), NoHitLruScorer("n")
    picked = []
    for _ in range(2 * count):
        column = list(scorer.score(cycle(pool)))
        picked.append(column.index(1.0))
        scorer.on_picked(cycle(pool), pool[picked[-1]])

    assert picked == [*range(count), *range(count)]
