"""New endpoints get less than their share, and only while there are others."""

import pytest

from epp.endpoints.ledger import Ledger
from epp.endpoints.slow_start import SlowStart
from tests.endpoints.builders import endpoint

WARM1, WARM2 = endpoint(0, added_at=0.0), endpoint(1, added_at=0.0)
NEW = endpoint(2, added_at=100.0)
POOL = (WARM1, WARM2, NEW)


def ledger(*requests: int) -> Ledger:
    counts = Ledger()
    for slot, number in enumerate(requests):
        counts.ensure(slot)
        counts.requests[slot] = number
    return counts


def test_without_new_endpoints_the_same_tuple_comes_back():
    pool = (WARM1, WARM2)

    assert SlowStart(30.0).limit(pool, ledger(9, 9), 100.0) is pool


@pytest.mark.parametrize(
    "age, in_flight, kept",
    [
        (0.0, 0, True),
        (0.0, 1, False),
        (15.0, 4, True),
        (15.0, 5, False),
        (29.0, 9, True),
        (29.0, 10, False),
        (30.0, 10, True),
    ],
)
def test_the_cap_grows_from_one_request_to_the_mean_of_the_others(age, in_flight, kept):
    counts = ledger(8, 12, in_flight)

    candidates = SlowStart(30.0).limit(POOL, counts, 100.0 + age)

    assert (NEW in candidates) is kept
    assert candidates[:2] == (WARM1, WARM2)


def test_when_the_others_are_idle_a_new_endpoint_may_have_one_request():
    assert SlowStart(30.0).limit(POOL, ledger(0, 0, 0), 120.0) is POOL
    assert SlowStart(30.0).limit(POOL, ledger(0, 0, 1), 120.0) == (WARM1, WARM2)


def test_when_all_are_new_nobody_is_left_out():
    pool = (NEW, endpoint(3, added_at=101.0))

    assert SlowStart(30.0).limit(pool, ledger(0, 0, 50, 0), 102.0) is pool


def test_zero_switches_it_off():
    assert SlowStart(0.0).limit(POOL, ledger(0, 0, 50), 100.0) is POOL


def test_no_candidates_stay_no_candidates():
    assert SlowStart(30.0).limit((), ledger(), 1.0) == ()


def test_the_answer_follows_the_ledger_for_the_same_candidates():
    slow_start, counts = SlowStart(30.0), ledger(10, 10, 0)

    assert slow_start.limit(POOL, counts, 100.0) is POOL
    counts.requests[2] = 1
    assert slow_start.limit(POOL, counts, 100.0) == (WARM1, WARM2)
