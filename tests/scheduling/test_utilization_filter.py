"""utilization-filter: endpoints above a limit are dropped."""

import pytest

from epp.scheduling.filters.utilization import (
    UtilizationCondition,
    UtilizationFilter,
    UtilizationFilterParameters,
)
from tests.scheduling.builders import context, cycle, fleet, ledger

POOL = fleet(
    4, waiting=[0.0, 5.0, 6.0, None], running=[40.0, 41.0, 0.0, None], kv_usage=[0.9, 0.5, 0.95, None]
)


def kept(*conditions, requests=(), fallback=False, pool=POOL):
    parameters = UtilizationFilterParameters(
        tuple(UtilizationCondition(*condition) for condition in conditions), fallback
    )
    plugin = UtilizationFilter.build("f", parameters, context())
    return [e.slot for e in plugin.filter(cycle(pool, ledger=ledger(requests)))]


@pytest.mark.parametrize(
    "conditions, slots",
    [
        ([("waiting-queue", 5)], [0, 1, 3]),
        ([("waiting-queue", 0)], [0, 3]),
        ([("running-requests", 40)], [0, 2, 3]),
        ([("kv-cache-utilization", 0.9)], [0, 1, 3]),
        ([("waiting-queue", 5), ("running-requests", 40)], [0, 3]),
        ([("active-requests", 2)], [0, 2, 3]),
        ([("active-requests", 2), ("kv-cache-utilization", 0.9)], [0, 3]),
        ([("waiting-queue", 100)], [0, 1, 2, 3]),
    ],
)
def test_an_endpoint_above_any_limit_is_dropped_and_one_that_tells_nothing_is_not(conditions, slots):
    assert kept(*conditions, requests=[2, 3, 0, 2]) == slots


@pytest.mark.parametrize("metric", ["waiting-queue", "active-requests"])
def test_when_none_keeps_the_limits_the_fallback_keeps_all(metric):
    pool = fleet(2, waiting=[3.0, 4.0])

    assert kept((metric, 1), requests=[3, 4], pool=pool) == []
    assert kept((metric, 1), requests=[3, 4], pool=pool, fallback=True) == [0, 1]
    assert kept((metric, 3), requests=[3, 4], pool=pool, fallback=True) == [0]


def test_scraped_limits_are_looked_at_once_for_the_same_candidates():
    scraped = UtilizationFilter("f", [UtilizationCondition("waiting-queue", 5)])
    counted = UtilizationFilter("f", [UtilizationCondition("active-requests", 5)])

    assert (scraped.volatility, counted.volatility) == ("snapshot", "request")
    assert scraped.filter(cycle(POOL)) is scraped.filter(cycle(POOL))


def test_conditions_are_needed_and_the_cache_is_a_share():
    (empty,) = UtilizationFilterParameters().faults()
    (percent,) = UtilizationCondition("kv-cache-utilization", 80.0).faults()

    assert (empty.key, empty.message) == ("conditions", "must not be empty")
    assert (percent.key, percent.message) == ("maxValue", "must be at most 1 for kv-cache-utilization")
    fine = UtilizationCondition("waiting-queue", 80.0)
    assert list(fine.faults()) == list(UtilizationFilterParameters((fine,)).faults()) == []
