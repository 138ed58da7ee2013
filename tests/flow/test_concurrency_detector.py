"""concurrency-detector: saturation by the ledger, and the filter that it is as well."""

import pytest

from epp.flow.concurrency import ConcurrencyDetector, ConcurrencyDetectorParameters
from epp.scheduling.contracts import Filter
from tests.scheduling.builders import context, cycle, fleet, ledger


def detector(**parameters):
    return ConcurrencyDetector.build("d", ConcurrencyDetectorParameters(**parameters), context())


@pytest.mark.parametrize(
    "parameters, requests, tokens, expected",
    [
        ({}, [0, 0], [0, 0], 0.0),
        ({}, [100, 0], [0, 0], 0.5),
        ({}, [100, 100], [0, 0], 1.0),
        ({}, [300, 300], [0, 0], 3.0),
        ({"max_requests": 10}, [5, 10], [0, 0], 0.75),
        ({"mode": "tokens"}, [900, 900], [500_000, 0], 0.25),
        ({"mode": "tokens", "max_tokens": 1000}, [0, 0], [1000, 1000], 1.0),
        ({"mode": "hybrid", "max_requests": 10, "max_tokens": 1000}, [5, 5], [100, 100], 0.5),
        ({"mode": "hybrid", "max_requests": 10, "max_tokens": 1000}, [1, 1], [900, 900], 0.9),
    ],
)
def test_in_flight_over_what_all_may_have(parameters, requests, tokens, expected):
    book = ledger(requests, tokens=tokens)

    assert detector(**parameters).saturation(fleet(2), book, 0.0) == expected


def test_without_endpoints_nothing_is_known():
    assert detector().saturation((), ledger(), 0.0) is None


def test_endpoints_that_were_not_asked_about_do_not_count():
    assert detector(max_requests=10).saturation(fleet(3)[:1], ledger([5, 10, 10]), 0.0) == 0.5


@pytest.mark.parametrize(
    "parameters, slots",
    [
        ({"max_requests": 10}, [0, 2]),
        ({"max_requests": 10, "headroom": 0.1}, [0, 1, 2]),
        ({"mode": "tokens", "max_tokens": 1000}, [0, 1]),
        ({"mode": "hybrid", "max_requests": 10, "max_tokens": 1000}, [0]),
        ({"max_requests": 100}, [0, 1, 2]),
        ({"max_requests": 1}, []),
    ],
)
def test_as_a_filter_it_drops_whoever_is_at_the_maximum(parameters, slots):
    book = ledger([1, 10, 1], tokens=[999, 0, 1000])

    assert [e.slot for e in detector(**parameters).filter(cycle(fleet(3), ledger=book))] == slots


def test_a_filter_that_drops_nobody_returns_what_it_got():
    pool = fleet(2)

    assert detector().filter(cycle(pool)) is pool
    assert isinstance(detector(), Filter)
    assert detector().volatility == "request"
