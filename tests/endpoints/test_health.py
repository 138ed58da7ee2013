"""Passive health: what ejects, for how long, who probes, and who is never left out."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.endpoints.health import Cause, Ejection, HealthPolicy, PassiveHealth, takes_requests
from tests.endpoints.builders import asleep, endpoint

E1, E2, E3, E4 = POOL = tuple(endpoint(slot) for slot in range(4))


@pytest.fixture
def health() -> PassiveHealth:
    return PassiveHealth(HealthPolicy(consecutive_failures=3, backoff_s=5.0, max_backoff_s=60.0))


def eject(health: PassiveHealth, who=E1, now: float = 0.0) -> None:
    for _ in range(3):
        health.on_connect_failure(who, now)
    assert health.ejected(who, now)


def test_while_nobody_failed_the_same_tuple_comes_back(health):
    assert health.routable(POOL, 0.0) is POOL
    assert not health.panic(POOL, 0.0)


def test_the_third_failure_in_a_row_ejects(health):
    outcomes = [health.on_connect_failure(E1, now) for now in (1.0, 2.0, 3.0)]

    assert outcomes == [False, False, True]
    assert health.routable(POOL, 3.0) == (E2, E3, E4)
    assert health.ejected(E1, 3.0) == Ejection(
        address="10.0.0.1:8000", cause=Cause.CONNECT, since=3.0, until=8.0, level=1
    )
    assert health.ejected(E2, 3.0) is None


def test_the_same_left_over_tuple_comes_back_until_something_changes(health):
    eject(health)
    first = health.routable(POOL, 0.0)

    assert health.routable(POOL, 4.9) is first


def test_a_response_of_any_status_starts_the_count_anew(health):
    for _ in range(10):
        health.on_connect_failure(E1, 0.0)
        health.on_connect_failure(E1, 0.0)
        health.on_response(E1, 0.0)

    assert health.routable(POOL, 0.0) is POOL


def test_first_byte_timeouts_and_connection_failures_count_together(health):
    health.on_connect_failure(E1, 0.0)
    health.on_first_byte_timeout(E1, 0.0)

    assert health.on_first_byte_timeout(E1, 0.0)
    assert health.ejected(E1, 0.0).cause is Cause.FIRST_BYTE_TIMEOUT


def test_a_dead_engine_is_ejected_at_once(health):
    assert health.on_engine_down(E1, 0.0)
    assert health.ejected(E1, 0.0).cause is Cause.ENGINE_DOWN


def test_refused_scrapes_count_like_refused_requests(health):
    health.on_scrape_refused(E1, 0.0)
    health.on_connect_failure(E1, 0.0)

    assert health.on_scrape_refused(E1, 0.0)
    assert health.ejected(E1, 0.0).cause is Cause.SCRAPE_REFUSED


def test_a_good_scrape_forgives_refused_scrapes_but_no_failed_requests(health):
    health.on_scrape_refused(E1, 0.0)
    health.on_scrape_refused(E1, 0.0)
    health.on_scrape(E1, 1.0)
    assert not health.on_scrape_refused(E1, 2.0)

    health.on_connect_failure(E2, 0.0)
    health.on_connect_failure(E2, 0.0)
    health.on_scrape(E2, 1.0)
    assert health.on_connect_failure(E2, 2.0)


def test_after_the_back_off_it_is_offered_again(health):
    eject(health)

    assert health.routable(POOL, 4.999) == (E2, E3, E4)
    assert health.routable(POOL, 5.0) is POOL
    assert health.ejected(E1, 5.0) is None


def test_exactly_one_request_probes(health):
    eject(health)

    health.on_pick(E1, 5.0)

    assert health.routable(POOL, 5.0) == (E2, E3, E4)
    assert health.routable(POOL, 9.9) == (E2, E3, E4)


def test_a_probe_without_outcome_is_followed_by_another_after_the_back_off(health):
    eject(health)
    health.on_pick(E1, 5.0)

    assert health.routable(POOL, 10.0) is POOL


def test_the_probes_response_readmits(health):
    eject(health)
    health.on_pick(E1, 5.0)

    health.on_response(E1, 6.0)

    assert health.routable(POOL, 6.0) is POOL
    health.on_pick(E1, 6.0)
    assert health.routable(POOL, 6.0) is POOL


def test_the_probes_failure_ejects_for_twice_as_long(health):
    eject(health)
    health.on_pick(E1, 5.0)

    assert health.on_connect_failure(E1, 6.0)
    assert health.ejected(E1, 6.0) == Ejection("10.0.0.1:8000", Cause.CONNECT, since=0.0, until=16.0, level=2)


def test_the_back_off_doubles_up_to_its_maximum(health):
    eject(health)
    spans = []
    now = 0.0
    for _ in range(6):
        until = health.ejected(E1, now).until
        spans.append(until - now)
        now = until
        health.on_pick(E1, now)
        health.on_connect_failure(E1, now)

    assert spans == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_a_failure_in_the_half_open_state_ejects_again_without_a_pick(health):
    eject(health)

    assert health.on_scrape_refused(E1, 5.0)
    assert health.ejected(E1, 5.0).until == 15.0


def test_ejected_soon_after_readmission_the_back_off_goes_on_doubling(health):
    eject(health)
    health.on_response(E1, 5.0)

    eject(health, now=65.0)

    assert health.ejected(E1, 65.0) == Ejection(
        "10.0.0.1:8000", Cause.CONNECT, since=65.0, until=75.0, level=2
    )


def test_after_a_minute_without_ejection_the_back_off_starts_anew(health):
    eject(health)
    health.on_response(E1, 5.0)

    eject(health, now=65.1)

    assert health.ejected(E1, 65.1).level == 1


def test_failures_that_were_under_way_do_not_lengthen_the_ejection(health):
    eject(health)

    assert [health.on_connect_failure(E1, 1.0) for _ in range(20)] == [False] * 20
    assert health.ejected(E1, 1.0).until == 5.0


def test_a_response_that_was_under_way_readmits(health):
    eject(health)

    health.on_response(E1, 1.0)

    assert health.routable(POOL, 1.0) is POOL


def test_a_draining_engines_last_responses_do_not_readmit(health):
    health.on_engine_down(E1, 0.0)

    health.on_response(E1, 1.0)
    assert health.ejected(E1, 1.0)

    health.on_pick(E1, 5.0)
    health.on_response(E1, 6.0)
    assert health.ejected(E1, 6.0) is None


def test_a_dead_engines_first_response_after_the_back_off_readmits(health):
    health.on_engine_down(E1, 0.0)

    health.on_response(E1, 5.0)
    eject(health, now=5.0)

    assert health.ejected(E1, 5.0).since == 5.0


def test_a_good_scrape_after_refused_ones_opens_early_for_one_probe(health):
    for _ in range(3):
        health.on_scrape_refused(E1, 0.0)
    assert health.routable(POOL, 1.0) == (E2, E3, E4)

    health.on_scrape(E1, 1.0)

    assert health.routable(POOL, 1.0) is POOL
    health.on_pick(E1, 1.0)
    assert health.routable(POOL, 1.1) == (E2, E3, E4)
    health.on_scrape(E1, 1.2)
    assert health.routable(POOL, 1.2) == (E2, E3, E4)


def test_good_scrapes_of_an_endpoint_that_fails_requests_change_nothing(health):
    eject(health)

    health.on_scrape(E1, 1.0)

    assert health.ejected(E1, 1.0).until == 5.0


def test_a_scrape_refused_during_the_probe_ejects_and_the_next_good_one_opens_again(health):
    eject(health)
    health.on_pick(E1, 5.0)
    assert health.on_scrape_refused(E1, 6.0)

    health.on_scrape(E1, 7.0)

    assert health.ejected(E1, 7.0) is None


def test_a_scrape_that_succeeds_while_the_probe_runs_gives_no_second_probe(health):
    for _ in range(3):
        health.on_scrape_refused(E1, 0.0)
    health.on_pick(E1, 5.0)

    health.on_scrape(E1, 6.0)

    assert health.routable(POOL, 6.0) == (E2, E3, E4)


@pytest.mark.parametrize("size, most", [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_at_most_half_are_left_out_and_the_last_never(health, size, most):
    pool = POOL[:size]
    for who in pool:
        eject(health, who)

    assert len(health.routable(pool, 0.0)) == size - most
    assert health.panic(pool, 0.0)


def test_in_panic_those_are_offered_whose_back_off_ends_first(health):
    for now, who in ((3.0, E1), (1.0, E2), (2.0, E3)):
        eject(health, who, now)

    assert health.routable(POOL, 3.0) == (E2, E4)
    assert health.panic(POOL, 3.0)
    assert health.ejected(E2, 3.0)


def test_half_of_them_ejected_is_no_panic(health):
    eject(health, E1)
    eject(health, E2)

    assert health.routable(POOL, 0.0) == (E3, E4)
    assert not health.panic(POOL, 0.0)


def test_the_half_is_counted_among_the_endpoints_that_are_asked_for(health):
    eject(health, E1)

    assert health.routable((E1, E2), 0.0) == (E2,)
    alone = (E1,)
    assert health.routable(alone, 0.0) is alone


def test_draining_and_sleeping_endpoints_are_not_offered(health):
    draining = endpoint(1, draining=True)
    pool = (E1, draining, asleep(2), E4)

    assert health.routable(pool, 0.0) == (E1, E4)
    assert health.routable((draining,), 0.0) == ()


def test_draining_endpoints_do_not_count_for_the_half(health):
    pool = (E1, endpoint(1, draining=True))
    eject(health, E1)

    assert health.routable(pool, 0.0) == (E1,)
    assert health.panic(pool, 0.0)


def test_a_sleep_that_was_seen_long_ago_does_not_count():
    assert not takes_requests(asleep(0))
    assert takes_requests(asleep(0, fresh=False))


def test_another_incarnation_starts_healthy(health):
    eject(health)
    again = dataclasses.replace(E1, incarnation=99)

    assert health.ejected(again, 1.0) is None
    assert not health.on_connect_failure(again, 1.0)


def test_failures_of_an_earlier_incarnation_do_not_count(health):
    again = dataclasses.replace(E1, incarnation=99)
    health.on_connect_failure(again, 0.0)
    health.on_connect_failure(again, 0.0)

    assert not health.on_connect_failure(E1, 0.0)
    assert not health.on_engine_down(E1, 0.0)
    assert health.ejected(again, 0.0) is None


def test_ejections_are_counted_by_cause(health):
    eject(health, E1)
    health.on_connect_failure(E1, 5.0)
    health.on_engine_down(E2, 0.0)

    assert health.ejections == {
        Cause.CONNECT: 2,
        Cause.FIRST_BYTE_TIMEOUT: 0,
        Cause.SCRAPE_REFUSED: 0,
        Cause.ENGINE_DOWN: 1,
    }


def test_the_defaults_eject_after_three_failures_for_five_seconds():
    health = PassiveHealth()

    eject(health)

    assert health.ejected(E1, 0.0).until == 5.0


EVENTS = ["connect", "timeout", "down", "refused", "response", "scrape", "pick"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3), st.floats(0.0, 10.0)), max_size=80))
def test_whatever_happens_at_least_half_are_offered_and_all_of_them_in_time(steps):
    health = PassiveHealth()
    acts = {
        "connect": health.on_connect_failure,
        "timeout": health.on_first_byte_timeout,
        "down": health.on_engine_down,
        "refused": health.on_scrape_refused,
        "response": health.on_response,
        "scrape": health.on_scrape,
        "pick": health.on_pick,
    }
    now = 0.0
    for event, slot, seconds in steps:
        now += seconds
        acts[event](POOL[slot], now)
        offered = health.routable(POOL, now)
        ejected = [e for e in POOL if health.ejected(e, now)]
        assert len(offered) >= 2
        assert set(POOL) - set(offered) <= set(ejected)
        assert health.panic(POOL, now) == (len(ejected) > 2)

    assert health.routable(POOL, now + 60.0) == POOL
