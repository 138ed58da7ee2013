"""active-request-scorer against literal tables."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.scorers.active_request import ActiveRequestParameters, ActiveRequestScorer
from tests.scheduling.builders import context, cycle, fleet, ledger


@pytest.mark.parametrize(
    "idle, busy, counts, scores",
    [
        (0, 1.0, [0], [1.0]),
        (0, 1.0, [5], [0.0]),
        (0, 1.0, [0, 0, 0], [1.0, 1.0, 1.0]),
        (0, 1.0, [0, 5, 10], [1.0, 0.5, 0.0]),
        (0, 1.0, [4, 4], [0.0, 0.0]),
        (0, 0.5, [0, 5, 10], [1.0, 0.25, 0.0]),
        (8, 1.0, [0, 8, 8], [1.0, 1.0, 1.0]),
        (8, 1.0, [8, 9, 10], [1.0, pytest.approx(0.1), 0.0]),
        (8, 0.0, [8, 9, 10], [1.0, 0.0, 0.0]),
    ],
)
def test_score_by_requests_in_flight(idle, busy, counts, scores):
    scorer = ActiveRequestScorer("a", idle, busy)

    assert list(scorer.score(cycle(fleet(len(counts)), ledger=ledger(counts)))) == scores


def test_counts_of_endpoints_that_are_no_candidates_do_not_matter():
    pool = fleet(3)

    column = ActiveRequestScorer("a").score(cycle((pool[0], pool[2]), ledger=ledger([5, 100, 10])))

    assert list(column) == [0.5, 0.0]


def test_factory_passes_parameters_on():
    scorer = ActiveRequestScorer.build("a", ActiveRequestParameters(8, 0.5), context())

    assert list(scorer.score(cycle(fleet(3), ledger=ledger([8, 15, 20])))) == [1.0, 0.125, 0.0]
    assert (scorer.name, scorer.type, scorer.volatility) == ("a", "active-request-scorer", "request")


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    st.integers(0, 20),
    st.floats(0.0, 1.0),
)
def test_score_is_in_range_and_never_prefers_the_busier(counts, idle, busy):
    column = list(
        ActiveRequestScorer("a", idle, busy).score(cycle(fleet(len(counts)), ledger=ledger(counts)))
    )

    assert all(0.0 <= score <= 1.0 for score in column)
    by_count = sorted(zip(counts, column, strict=True), key=lambda pair: pair[0])
    assert all(one[1] >= other[1] for one, other in itertools.pairwise(by_count))
