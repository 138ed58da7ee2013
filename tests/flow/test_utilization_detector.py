"""utilization-detector: saturation by scraped load, and the filter that it is as well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.endpoints.ledger import Ledger
from epp.flow.utilization import Thresholds, UtilizationDetector, UtilizationDetectorParameters
from epp.scheduling.contracts import BuildContext, Filter
from tests.scheduling.builders import cycle, endpoint, fleet

NOW = 100.0


def detector(*, ages=None, interval_s=0.5, warnings=None, **parameters):
    """`ages` is seconds since the last scrape, by slot; 0 for each when None."""

    def scraped_at(address):
        age = 0.0 if ages is None else ages[int(address.split(".")[3].partition(":")[0]) - 1]
        return None if age is None else NOW - age

    context = BuildContext(
        None, frozenset(), (warnings if warnings is not None else []).append, scraped_at, interval_s
    )
    return UtilizationDetector.build("d", UtilizationDetectorParameters(**parameters), context)


def saturation(pool, **options):
    return detector(**options).saturation(pool, Ledger(), NOW)


@pytest.mark.parametrize(
    "waiting, kv_usage, expected",
    [
        ([0.0], [0.0], 0.0),
        ([1.0], [0.1], 0.2),
        ([1.0], [0.4], 0.5),
        ([5.0], [0.0], 1.0),
        ([0.0], [0.8], 1.0),
        ([0.0, 5.0], [0.0, 0.0], 0.5),
        ([5.0, 6.0], [0.8, 0.1], 1.0),
        ([100.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], 0.25),
    ],
)
def test_mean_of_the_fuller_of_queue_and_cache_each_at_most_1(waiting, kv_usage, expected):
    assert saturation(fleet(len(waiting), waiting=waiting, kv_usage=kv_usage)) == expected


def test_thresholds_are_parameters():
    pool = fleet(1, waiting=[5.0], kv_usage=[0.45])

    assert saturation(pool, queue_depth=10) == 0.5625
    assert saturation(pool, queue_depth=10, kv_usage=0.9) == 0.5
    assert saturation(pool, queue_depth=20, kv_usage=1.0) == 0.45


def test_one_number_that_is_missing_leaves_the_other():
    assert saturation(fleet(2, waiting=[1.0, 1.0], kv_usage=[None, None])) == 0.2
    assert saturation(fleet(1, waiting=[None], kv_usage=[0.2])) == 0.25


def test_endpoints_that_tell_nothing_do_not_count():
    pool = (*fleet(1, waiting=[5.0]), endpoint(1, metrics=None))

    assert saturation(pool) == 1.0
    assert saturation(pool[1:]) is None
    assert saturation(()) is None


def test_stale_endpoints_do_not_count():
    pool = fleet(3, waiting=[5.0, 5.0, 0.0])

    assert saturation(pool, ages=[0.0, 1.5, 1.5]) == 2 / 3
    assert saturation(pool, ages=[1.6, 0.0, 0.0]) == 0.5
    assert saturation(pool, ages=[1.6, 1.6, 1.6]) is None
    assert saturation(pool, ages=[None, None, 0.0]) == 0.0


@pytest.mark.parametrize(
    "wanted_s, interval_s, stale_after_s, warned",
    [
        (None, 0.05, 0.2, False),
        (None, 0.5, 1.5, False),
        (0.2, 0.05, 0.2, False),
        (5.0, 0.5, 5.0, False),
        (0.2, 0.5, 1.5, True),
        (1.0, float("inf"), float("inf"), True),
    ],
)
def test_staleness_is_at_least_three_scrape_intervals_and_raising_it_is_told(
    wanted_s, interval_s, stale_after_s, warned
):
    warnings = []
    pool = fleet(1, waiting=[5.0])
    made = detector(ages=[NOW], interval_s=interval_s, warnings=warnings, staleness_s=wanted_s)

    assert made.saturation(pool, Ledger(), min(stale_after_s, 1e6)) == 1.0
    if stale_after_s < 1e6:
        assert made.saturation(pool, Ledger(), stale_after_s + 0.01) is None
    assert bool(warnings) == warned


def test_the_notice_says_what_holds():
    warnings = []
    detector(interval_s=0.5, warnings=warnings, staleness_s=0.2)

    (warning,) = warnings
    assert warning.startswith("d: metricsStalenessThreshold 0.2s is raised to 1.5s, three scrape intervals")


def kept(pool, ages=None, **parameters):
    return [e.slot for e in detector(ages=ages, **parameters).filter(cycle(pool, now=NOW))]


def test_as_a_filter_it_drops_whoever_is_at_a_threshold():
    pool = fleet(5, waiting=[4.0, 5.0, 0.0, 0.0, None], kv_usage=[0.0, 0.0, 0.79, 0.8, None])

    assert kept(pool) == [0, 2, 4]


def test_headroom_lets_it_go_beyond():
    pool = fleet(4, waiting=[5.0, 6.0, 0.0, 0.0], kv_usage=[0.0, 0.0, 0.95, 0.99])

    assert kept(pool, headroom=0.2) == [0, 2]
    assert kept(pool, headroom=0.1) == [0]


def test_as_a_filter_it_drops_nobody_for_being_stale():
    pool = fleet(3, waiting=[9.0, 9.0, 0.0])

    assert kept(pool, ages=[0.0, 9.0, 9.0]) == [1, 2]
    assert kept(pool, ages=[0.0, None, 0.0]) == [1, 2]


def test_as_a_filter_it_keeps_all_when_none_is_below():
    pool = fleet(2, waiting=[5.0, 9.0])
    c = cycle(pool, now=NOW)

    assert detector().filter(c) is pool
    assert detector(queue_depth=100).filter(c) is pool


def test_it_is_a_filter_by_request_since_ages_pass():
    made = UtilizationDetector("d", lambda _: None, staleness_s=1.0)

    assert isinstance(made, Filter)
    assert made.volatility == "request"
    assert Thresholds() == Thresholds(5.0, 0.8)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1)), min_size=1, max_size=10))
def test_the_pool_is_at_1_exactly_when_nobody_is_below_a_threshold(loads):
    pool = fleet(len(loads), waiting=[w for w, _ in loads], kv_usage=[k for _, k in loads])

    assert (saturation(pool) >= 1.0) == all(w >= 5 or k >= 0.8 for w, k in loads)
    assert 0.0 <= saturation(pool) <= 1.0
