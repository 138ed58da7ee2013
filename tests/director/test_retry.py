"""The retry contract as rules."""

import pytest

from epp.director.retry import RetryBudget, RetryPolicy, may_repeat
from epp.director.types import Failure, FailureKind

POLICY = RetryPolicy()


def repeat(kind, *, written=True, replay_safe=True, executions=1):
    return may_repeat(
        Failure(kind, written=written), replay_safe=replay_safe, executions=executions, policy=POLICY
    )


@pytest.mark.parametrize("kind", [k for k in FailureKind if k is not FailureKind.FIRST_BYTE_TIMEOUT])
def test_an_inference_request_may_be_sent_again(kind):
    assert repeat(kind)


def test_a_first_byte_timeout_is_never_repeated():
    assert not repeat(FailureKind.FIRST_BYTE_TIMEOUT)


def test_what_has_an_effect_of_its_own_is_repeated_only_if_nothing_was_written():
    assert not repeat(FailureKind.BROKEN, replay_safe=False)
    assert repeat(FailureKind.CONNECT, written=False, replay_safe=False)


def test_there_are_at_most_three_executions():
    assert repeat(FailureKind.BROKEN, executions=2)
    assert not repeat(FailureKind.BROKEN, executions=3)


def test_connection_failures_go_through_the_list_without_a_limit():
    assert repeat(FailureKind.CONNECT, written=False, executions=3)


def test_three_repeats_after_503_are_always_allowed_within_ten_seconds():
    budget = RetryBudget(POLICY)

    unavailable, engine_down = Failure(FailureKind.UNAVAILABLE), Failure(FailureKind.ENGINE_DOWN)

    assert [budget.allows(unavailable, float(i)) for i in range(4)] == [True] * 3 + [False]
    assert budget.allows(engine_down, 10.0)


def test_repeats_after_500_or_503_are_a_fifth_of_the_requests_of_the_last_ten_seconds():
    budget = RetryBudget(POLICY)
    for _ in range(50):
        budget.on_request(1.0)

    assert sum(budget.take(2.0) for _ in range(60)) == 10


def test_requests_older_than_ten_seconds_no_longer_raise_the_budget():
    budget = RetryBudget(POLICY)
    for second in range(5):
        for _ in range(10):
            budget.on_request(float(second))

    assert sum(budget.take(30.0) for _ in range(60)) == 3


def test_repeats_that_somebody_else_made_are_spent_too():
    budget = RetryBudget(POLICY)

    budget.spend(2, 1.0)
    before = budget.has_room(1.0)
    budget.spend(2, 2.0)

    assert (before, budget.has_room(2.0), budget.has_room(11.0)) == (True, False, True)


def test_repeats_after_a_broken_connection_do_not_spend_the_budget():
    budget = RetryBudget(RetryPolicy(budget_minimum=0))

    assert budget.allows(Failure(FailureKind.BROKEN), 0.0)
    assert not budget.allows(Failure(FailureKind.UNAVAILABLE), 0.0)
