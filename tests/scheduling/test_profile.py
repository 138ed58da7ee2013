"""A scheduling profile: filters, weighted sum, kept columns, decisions of whole profiles."""

import math
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.endpoints.types import EndpointMetrics
from epp.errors import InternalError, NoEndpointsError, SaturatedError
from epp.scheduling.contracts import PrefixMatch
from epp.scheduling.pickers.max_score import MaxScorePicker
from epp.scheduling.profile import SchedulingProfile
from epp.scheduling.scorers.active_request import ActiveRequestScorer
from epp.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.scheduling.scorers.no_hit_lru import NoHitLruScorer
from epp.scheduling.scorers.prefix_cache import PrefixCacheScorer
from epp.scheduling.scorers.queue_depth import QueueScorer
from epp.scheduling.scorers.running_requests import RunningRequestsScorer
from tests.scheduling.builders import DropFilter, FixedScorer, cycle, endpoint, fleet, ledger, slots_of


def profile(*scorers, filters=()):
    return SchedulingProfile("default", filters, scorers, MaxScorePicker("p", random.Random(1)))


def seed_profile():
    return profile(
        (QueueScorer("queue"), 2),
        (KvCacheUtilizationScorer("kv"), 2),
        (PrefixCacheScorer("gpu", "gpu"), 1),
        (PrefixCacheScorer("cpu", "cpu"), 1),
    )


def test_total_is_the_sum_of_weight_times_score():
    result = profile((FixedScorer("a", [1.0, 0.5]), 2), (FixedScorer("b", [0.25, 1.0]), 4.0)).run(
        cycle(fleet(2))
    )

    assert list(result.totals) == [3.0, 5.0]
    assert slots_of(result.order) == [1, 0]
    assert result.profile == "default"
    assert result.max_endpoints == 1


def test_columns_are_told_apart_with_their_weights():
    result = profile((FixedScorer("a", [1.0, 0.5]), 2), (FixedScorer("b", [0.25, 1.0]), 4.0)).run(
        cycle(fleet(2))
    )

    assert [(c.scorer, c.type, c.weight, list(c.scores)) for c in result.columns] == [
        ("a", "fixed-scorer", 2, [1.0, 0.5]),
        ("b", "fixed-scorer", 4.0, [0.25, 1.0]),
    ]


@pytest.mark.parametrize("volatility", ["request", "snapshot"])
def test_scores_are_clamped_and_not_a_number_is_zero(volatility):
    scorer = FixedScorer("a", [2.0, -1.0, math.nan, 0.5], volatility)

    result = profile((scorer, 2)).run(cycle(fleet(4)))

    assert list(result.columns[0].scores) == [1.0, 0.0, 0.0, 0.5]
    assert list(result.totals) == [2.0, 0.0, 0.0, 1.0]


def test_a_scorer_that_forgets_a_candidate_is_our_own_fault():
    class Short(FixedScorer):
        def score(self, cycle):
            return [1.0]

    with pytest.raises(InternalError, match="1 scores for 2 candidates"):
        profile((Short("a", []), 1)).run(cycle(fleet(2)))


def test_no_scorers_means_load_alone():
    result = profile().run(cycle(fleet(3), ledger=ledger([2, 1, 3])))

    assert list(result.totals) == [0.0, 0.0, 0.0]
    assert slots_of(result.order) == [1, 0, 2]


def test_filters_run_in_order_on_what_the_one_before_left():
    first, second = DropFilter("first", [0]), DropFilter("second", [2])
    scorer = FixedScorer("a", [0.0, 0.25, 0.5, 0.75])

    result = profile((scorer, 1), filters=(first, second)).run(cycle(fleet(4)))

    assert first.seen == [[0, 1, 2, 3]]
    assert second.seen == [[1, 2, 3]]
    assert [e.slot for e in result.candidates] == [1, 3]
    assert [(e.slot, name) for e, name in result.excluded] == [(0, "first"), (2, "second")]
    assert list(result.totals) == [0.25, 0.75]
    assert slots_of(result.order) == [3, 1]


@dataclass
class OddFilter:
    """Keeps the odd slots; the same tuple for the same tuple."""

    name: str = "odd"
    type: str = "odd-filter"
    volatility: str = "snapshot"
    known: dict = field(default_factory=dict)

    def filter(self, cycle):
        kept = tuple(e for e in cycle.candidates if e.slot % 2)
        return self.known.setdefault(id(cycle.candidates), kept)


@pytest.mark.parametrize(
    "filters, times",
    [
        ((OddFilter(),), 1),
        ((OddFilter(), DropFilter("none", [])), 1),
        ((OddFilter(), DropFilter("one", [1])), 3),
    ],
    ids=["snapshot", "and one that drops nobody", "and one that drops by request"],
)
def test_snapshot_columns_are_kept_for_what_snapshot_filters_leave(filters, times):
    scorer = FixedScorer("kept", [0.0, 0.25, 0.5, 0.75, 1.0, 0.5], "snapshot")
    made, pool = profile((scorer, 1), filters=filters), fleet(6)

    for _ in range(3):
        result = made.run(cycle(pool))

    assert scorer.asked == times
    assert list(result.totals) == [0.25, 0.75, 0.5][-len(result.candidates) :]


def test_snapshot_columns_are_not_kept_for_what_a_filter_leaves_of_some_candidates():
    scorer = FixedScorer("kept", [0.0, 0.25], "snapshot")
    made, pool = profile((scorer, 1), filters=(OddFilter(),)), fleet(2)

    for _ in range(3):
        made.run(cycle(pool, full=False))

    assert scorer.asked == 3


def test_the_cycle_is_left_as_it_came():
    c = cycle(fleet(2))

    profile(filters=(DropFilter("f", [0]),)).run(c)

    assert [e.slot for e in c.candidates] == [0, 1]
    assert c.full


def test_dropping_every_candidate_is_saturation_and_later_filters_are_not_asked():
    last = DropFilter("last", [])

    with pytest.raises(SaturatedError) as caught:
        profile(filters=(DropFilter("all", [0, 1]), last)).run(cycle(fleet(2)))

    assert (caught.value.status, caught.value.reason) == (429, "rejected-saturated")
    assert last.seen == []


def test_no_candidate_to_begin_with_is_unavailability():
    with pytest.raises(NoEndpointsError) as caught:
        profile(filters=(DropFilter("all", [0]),)).run(cycle(()))

    assert (caught.value.status, caught.value.reason) == (503, "rejected-no-endpoints")


def test_snapshot_columns_are_kept_while_candidates_and_pool_version_are_the_same():
    kept, asked = FixedScorer("kept", [0.5, 1.0], "snapshot"), FixedScorer("asked", [0.5, 0.0])
    made, pool = profile((kept, 1), (asked, 1)), fleet(2)

    for _ in range(3):
        assert list(made.run(cycle(pool)).totals) == [1.0, 1.0]

    assert (kept.asked, asked.asked) == (1, 3)


def test_snapshot_columns_are_asked_again_for_another_version_or_other_candidates():
    kept = FixedScorer("kept", [0.5, 1.0], "snapshot")
    made, pool = profile((kept, 1)), fleet(2)
    made.run(cycle(pool))

    made.run(cycle(pool, pool_version=2))
    assert kept.asked == 2
    made.run(cycle(fleet(2), pool_version=2))
    assert kept.asked == 3
    made.run(cycle(pool, pool_version=2))
    assert kept.asked == 3


def test_snapshot_columns_are_not_kept_for_a_part_of_the_candidates():
    kept = FixedScorer("kept", [0.5, 1.0, 0.25], "snapshot")
    made, pool = profile((kept, 1)), fleet(3)

    made.run(cycle(pool, full=False))
    made.run(cycle(pool, full=False))
    assert kept.asked == 2

    filtering = profile((kept, 1), filters=(DropFilter("f", [1]),))
    filtering.run(cycle(pool))
    assert list(filtering.run(cycle(pool)).totals) == [0.5, 0.25]
    assert kept.asked == 4


def test_filtered_requests_do_not_push_out_what_is_kept_for_the_others():
    kept, drop = FixedScorer("kept", [0.5, 1.0], "snapshot"), DropFilter("f", [])
    made, pool = profile((kept, 1), filters=(drop,)), fleet(2)
    made.run(cycle(pool))
    drop.slots = [0]
    for _ in range(70):
        made.run(cycle(pool))
    drop.slots = []
    made.run(cycle(pool))

    assert kept.asked == 71


def test_a_filter_that_drops_nobody_keeps_the_kept_columns():
    class Copy(DropFilter):
        def filter(self, cycle):
            return tuple(e for e in cycle.candidates)

    kept = FixedScorer("kept", [0.5, 1.0], "snapshot")
    made, pool = profile((kept, 1), filters=(Copy("copy", []),)), fleet(2)
    made.run(cycle(pool))
    made.run(cycle(pool))

    assert kept.asked == 1


def test_columns_of_at_most_64_sets_of_candidates_are_kept():
    kept = FixedScorer("kept", [0.5], "snapshot")
    made = profile((kept, 1))
    pools = [fleet(1) for _ in range(65)]
    for pool in pools:
        made.run(cycle(pool))
    assert kept.asked == 65

    made.run(cycle(pools[64]))
    assert kept.asked == 65
    made.run(cycle(pools[0]))
    assert kept.asked == 66


def held(mask, blocks=8, total=8):
    return PrefixMatch(((mask, blocks),), total, 64.0)


def test_seed_weights_a_full_double_hit_is_worth_the_whole_queue_term():
    pool = fleet(2, waiting=[1.0, 0.0], kv_usage=[0.5, 0.5])
    matches = {"gpu": held(0b01), "cpu": held(0b01)}

    result = seed_profile().run(cycle(pool, matches=matches, ledger=ledger([1, 0])))

    assert list(result.totals) == [3.0, 3.0]
    assert slots_of(result.order) == [1, 0]  # a tie, so the one with less in flight


def test_seed_weights_prefix_decides_between_equal_queues():
    pool = fleet(2, waiting=[3.0, 3.0], kv_usage=[0.5, 0.5])

    result = seed_profile().run(cycle(pool, matches={"cpu": held(0b10)}, ledger=ledger([0, 5])))

    assert list(result.totals) == [3.0, 4.0]
    assert slots_of(result.order) == [1, 0]


def test_never_scraped_endpoint_does_not_win_the_metric_terms():
    pool = fleet(3, waiting=[None, 1.0, 9.0], kv_usage=[None, 0.1, 0.8])

    result = seed_profile().run(cycle(pool))

    assert list(result.totals) == pytest.approx([0.4, 3.8, 0.4])
    assert next(result.order).slot == 1


def test_a_new_prompt_goes_to_the_idle_endpoint_whoever_caches_less():
    pool = fleet(2, waiting=[50.0, 0.0], kv_usage=[0.9, 0.9])

    assert next(seed_profile().run(cycle(pool, matches={"gpu": PrefixMatch((), 8, 64.0)})).order).slot == 1


def test_equal_endpoints_without_a_prefix_share_evenly():
    pool, book = fleet(3, waiting=[0.0] * 3, kv_usage=[0.0] * 3), ledger(size=3)
    made = seed_profile()
    for _ in range(30):
        book.take(next(made.run(cycle(pool, ledger=book)).order).slot, 10)

    assert book.requests == [10, 10, 10]


def test_a_popular_prefix_spreads_once_its_endpoint_is_busy():
    made = profile(
        (ActiveRequestScorer("active"), 2),
        (PrefixCacheScorer("gpu", "gpu"), 1),
        (PrefixCacheScorer("cpu", "cpu"), 1),
    )
    pool, book, holders = fleet(4), ledger(size=4), 0b0001
    for _ in range(100):
        c = cycle(pool, matches={"gpu": held(holders), "cpu": held(holders)}, ledger=book)
        slot = next(made.run(c).order).slot
        book.take(slot, 0)
        holders |= 1 << slot

    assert sum(book.requests) == 100
    assert max(book.requests) / 25 <= 1.5


number = st.one_of(st.none(), st.floats(0.0, 100.0))


@st.composite
def cases(draw):
    count = draw(st.integers(1, 12))
    pool = []
    for slot in range(count):
        metrics = EndpointMetrics(waiting=draw(number), running=draw(number), kv_usage=draw(number))
        pool.append(endpoint(slot, metrics=metrics, fresh=draw(st.booleans())))
    requests = draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))
    mask = draw(st.integers(0, (1 << count) - 1))
    segments = tuple((m, b) for m, b in ((mask, 3), (((1 << count) - 1) & ~mask, 7)) if m)
    match = PrefixMatch(segments if draw(st.booleans()) else (), 10, 64.0)
    return tuple(pool), requests, {"gpu": match, "cpu": held(mask) if mask else PrefixMatch()}


def everything():
    return profile(
        (ActiveRequestScorer("active", 4), 2),
        (QueueScorer("queue"), 1.5),
        (PrefixCacheScorer("gpu", "gpu"), 1),
        (KvCacheUtilizationScorer("kv"), 2),
        (RunningRequestsScorer("running"), 0.5),
        (PrefixCacheScorer("cpu", "cpu", match_length_weight=0.5), 1),
        (NoHitLruScorer("cold"), 1),
    )


@given(cases())
def test_kept_columns_give_the_same_decision_as_fresh_ones(case):
    pool, requests, matches = case
    warm = everything()
    warm.run(cycle(pool, matches={}, ledger=ledger([9, 0, 3])))

    kept = warm.run(cycle(pool, matches=matches, ledger=ledger(requests)))
    fresh = everything().run(cycle(pool, matches=matches, ledger=ledger(requests), full=False))

    assert list(kept.totals) == list(fresh.totals)
    assert [list(c.scores) for c in kept.columns] == [list(c.scores) for c in fresh.columns]


@given(cases())
def test_scores_are_in_range_totals_add_up_and_the_order_is_a_permutation(case):
    pool, requests, matches = case

    result = everything().run(cycle(pool, matches=matches, ledger=ledger(requests)))

    assert all(0.0 <= score <= 1.0 for column in result.columns for score in column.scores)
    for place, total in enumerate(result.totals):
        assert total == pytest.approx(sum(c.weight * c.scores[place] for c in result.columns))
    assert sorted(slots_of(result.order)) == list(range(len(pool)))


def test_gaps_between_slots_do_not_change_a_decision():
    metrics = [EndpointMetrics(waiting=w, kv_usage=k) for w, k in ((1.0, 0.5), (3.0, 0.25), (5.0, 0.0))]
    pool = tuple(endpoint(slot, metrics=m) for slot, m in zip((1, 4, 70), metrics, strict=True))
    matches = {"gpu": held(1 << 70 | 1 << 3, 4), "cpu": held(1 << 4)}

    result = seed_profile().run(cycle(pool, matches=matches))

    assert list(result.totals) == [3.0, 3.5, 2.5]
    assert slots_of(result.order) == [4, 1, 70]


def test_a_replaced_endpoint_is_scored_by_its_new_numbers():
    made, pool = seed_profile(), fleet(2, waiting=[0.0, 4.0], kv_usage=[0.0, 0.0])
    assert list(made.run(cycle(pool)).totals) == [4.0, 2.0]

    moved = (replace(pool[0], metrics=EndpointMetrics(waiting=8.0, kv_usage=0.5)), pool[1])

    assert list(made.run(cycle(moved, pool_version=2)).totals) == [1.0, 4.0]


@st.composite
def large_cases(draw):
    """Many candidates of which few are close to the best, with slots that may have gaps."""
    usages = draw(st.lists(st.floats(0.0, 1.0), min_size=128, max_size=160))
    step = draw(st.sampled_from([1, 3]))
    pool = tuple(endpoint(step * n, metrics=EndpointMetrics(kv_usage=u)) for n, u in enumerate(usages))
    near = draw(st.lists(st.integers(0, 127), max_size=20))
    masks = [sum(1 << step * place for place in {*near[half::2]}) for half in (0, 1)]
    segments = tuple((mask & ~masks[0] if at else mask, 3 + at) for at, mask in enumerate(masks) if mask)
    requests = draw(st.lists(st.integers(0, 2), min_size=480, max_size=480))
    return pool, {"gpu": PrefixMatch(segments, 6, 64.0)}, requests


@given(large_cases())
def test_of_many_candidates_the_same_are_first_whether_the_best_are_known_beforehand_or_not(case):
    pool, matches, requests = case
    scorers = (KvCacheUtilizationScorer("kv"), 2), (PrefixCacheScorer("gpu", "gpu"), 1)
    kept = profile(*scorers)
    kept.run(cycle(pool, ledger=ledger(size=480)))

    known = kept.run(cycle(pool, matches=matches, ledger=ledger(requests)))
    fresh = profile(*scorers).run(cycle(pool, matches=matches, ledger=ledger(requests), full=False))

    assert slots_of(known.order, 3) == slots_of(fresh.order, 3)


class Watching(MaxScorePicker):
    """Remembers the contenders that it was told."""

    def order(self, cycle, totals, weight_sum, contenders=None):
        self.contenders = contenders
        return super().order(cycle, totals, weight_sum, contenders)


@pytest.mark.parametrize(
    "usages, expected",
    [
        ([0.5] * 126 + [0.0, 0.005], [3, 126, 127]),
        ([0.5] * 125 + [0.0, 0.005], None),  # too few candidates
        ([0.5] * 128, None),  # too many that are close
    ],
)
def test_the_best_are_known_beforehand_where_they_are_few_of_many(usages, expected):
    watching = Watching("p", random.Random(1))
    scorers = (KvCacheUtilizationScorer("kv"), 2), (PrefixCacheScorer("gpu", "gpu"), 1)
    pool = fleet(len(usages), kv_usage=usages)
    matches = {"gpu": held(1 << 3)}

    SchedulingProfile("default", (), scorers, watching).run(
        cycle(pool, matches=matches, ledger=ledger(size=128))
    )

    assert watching.contenders == expected
