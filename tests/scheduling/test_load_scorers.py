"""queue-scorer, running-requests-size-scorer and kv-cache-utilization-scorer against literal tables."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.endpoints.types import EndpointMetrics
from epp.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.scheduling.scorers.queue_depth import QueueScorer
from epp.scheduling.scorers.running_requests import RunningRequestsScorer
from tests.scheduling.builders import cycle, endpoint, fleet

MIN_MAX = [
    ([0.0], [1.0]),
    ([7.0], [1.0]),
    ([3.0, 3.0, 3.0], [1.0, 1.0, 1.0]),
    ([0.0, 0.0], [1.0, 1.0]),
    ([0.0, 5.0, 10.0], [1.0, 0.5, 0.0]),
    ([10.0, 2.0], [0.0, 1.0]),
    ([6.0, 10.0, 14.0], [1.0, 0.5, 0.0]),  # all beyond any limit: the least overloaded still wins
]


@pytest.mark.parametrize("waiting, scores", MIN_MAX)
def test_queue_score_is_distance_from_longest_over_span(waiting, scores):
    assert QueueScorer("q").score(cycle(fleet(len(waiting), waiting=waiting))) == scores


@pytest.mark.parametrize("running, scores", MIN_MAX)
def test_running_score_is_distance_from_most_over_span(running, scores):
    assert RunningRequestsScorer("r").score(cycle(fleet(len(running), running=running))) == scores


@pytest.mark.parametrize(
    "usage, scores",
    [
        ([0.0], [1.0]),
        ([1.0], [0.0]),
        ([0.25, 0.5], [0.75, 0.5]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([1.5, 0.75], [0.0, 0.25]),
    ],
)
def test_kv_score_is_the_free_share(usage, scores):
    assert KvCacheUtilizationScorer("kv").score(cycle(fleet(len(usage), kv_usage=usage))) == scores


def test_never_scraped_gets_the_worst_known_score_when_that_is_below_half():
    pool = fleet(3, kv_usage=[None, 0.25, 0.75], waiting=[None, 1.0, 9.0])

    assert KvCacheUtilizationScorer("kv").score(cycle(pool)) == [0.25, 0.75, 0.25]
    assert QueueScorer("q").score(cycle(pool)) == [0.0, 1.0, 0.0]


def test_never_scraped_gets_half_when_every_known_score_is_better():
    assert KvCacheUtilizationScorer("kv").score(cycle(fleet(2, kv_usage=[None, 0.25]))) == [0.5, 0.75]
    assert QueueScorer("q").score(cycle(fleet(3, waiting=[4.0, None, 4.0]))) == [1.0, 0.5, 1.0]


def test_all_unknown_get_half():
    pool = fleet(3, waiting=[None, None, None])

    for scorer in (QueueScorer("q"), RunningRequestsScorer("r"), KvCacheUtilizationScorer("kv")):
        assert scorer.score(cycle(pool)) == [0.5, 0.5, 0.5]


def test_stale_metrics_are_not_read():
    idle_but_stale = endpoint(0, metrics=EndpointMetrics(waiting=0.0), fresh=False)
    busy = endpoint(1, metrics=EndpointMetrics(waiting=8.0))
    busier = endpoint(2, metrics=EndpointMetrics(waiting=10.0))

    assert QueueScorer("q").score(cycle((idle_but_stale, busy, busier))) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("waiting", [-1.0, math.nan, math.inf])
def test_unusable_number_counts_as_missing(waiting):
    pool = fleet(3, waiting=[waiting, 2.0, 4.0])

    assert QueueScorer("q").score(cycle(pool)) == [0.0, 1.0, 0.0]


def test_page_without_the_metric_counts_as_missing():
    blind = endpoint(0, metrics=EndpointMetrics(running=1.0))
    known = endpoint(1, metrics=EndpointMetrics(waiting=3.0))

    assert QueueScorer("q").score(cycle((blind, known))) == [0.5, 1.0]


def test_scraped_endpoint_is_read_again_and_others_keep_their_number():
    scorer = QueueScorer("q")
    first = fleet(3, waiting=[0.0, 5.0, 10.0])
    second = (first[0], replace(first[1], metrics=EndpointMetrics(waiting=10.0)), first[2])

    assert scorer.score(cycle(first)) == [1.0, 0.5, 0.0]
    assert scorer.score(cycle(second)) == [1.0, 0.0, 0.0]
    assert scorer.score(cycle(second[:2])) == [1.0, 0.0]
    assert scorer.score(cycle(first)) == [1.0, 0.5, 0.0]


def test_a_score_list_handed_out_does_not_change_later():
    scorer = KvCacheUtilizationScorer("kv")
    first = fleet(2, kv_usage=[0.25, 0.5])
    kept = scorer.score(cycle(first))

    scorer.score(cycle((replace(first[0], metrics=EndpointMetrics(kv_usage=1.0)), first[1])))

    assert kept == [0.75, 0.5]


metric = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@given(st.lists(st.tuples(metric, st.booleans()), min_size=1, max_size=12))
def test_scores_are_in_range_for_any_page(pages):
    pool = tuple(
        endpoint(slot, metrics=EndpointMetrics(waiting=value, running=value, kv_usage=value), fresh=fresh)
        for slot, (value, fresh) in enumerate(pages)
    )

    for scorer in (QueueScorer("q"), RunningRequestsScorer("r"), KvCacheUtilizationScorer("kv")):
        column = scorer.score(cycle(pool))
        assert len(column) == len(pool)
        assert all(0.0 <= score <= 1.0 for score in column)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=10), st.integers(0, 9), st.integers(0, 50))
def test_reading_only_what_changed_equals_reading_everything(waiting, place, value):
    first = fleet(len(waiting), waiting=[float(w) for w in waiting])
    place %= len(first)
    changed = replace(first[place], metrics=EndpointMetrics(waiting=float(value)))
    second = (*first[:place], changed, *first[place + 1 :])
    warm = QueueScorer("warm")
    warm.score(cycle(first))

    assert warm.score(cycle(second)) == QueueScorer("cold").score(cycle(second))
