"""Requests whose end nobody reports: what scrapes and the clock say of them."""

import pytest

from epp.director.types import EndReason
from epp.director.unobserved import FIRST_GUESS_S, ON_ITS_WAY_S, SETTLE_S
from epp.endpoints.types import EndpointMetrics
from tests.director.core import Pool

PROMPT = "Hello there. " * 50


def sent(pool, now, **more):
    """A streamed request whose head came and whose rest nobody shows."""
    exchange, _ = pool.send(PROMPT, now, stream=True, **more)
    pool.director.on_response_head(exchange, 200, now)
    pool.director.on_first_byte(exchange, now)
    pool.director.on_unobserved(exchange, now)
    return exchange


def scraped(pool, now, running, waiting=0.0):
    endpoint = pool.endpoint(1)
    metrics = EndpointMetrics(running=running, waiting=waiting)
    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, now)


def counted(pool):
    return pool.ledger.requests[0], len(pool.director.unobserved)


def test_it_is_told_at_once_and_counted_on():
    pool = Pool(n=1)
    sent(pool, 1.0)

    assert [(r.reason, r.status, r.ended_at) for r in pool.records] == [(EndReason.UNOBSERVED, 200, 1.0)]
    assert counted(pool) == (1, 1)
    assert sum(pool.director.running.counts().values()) == 1


def test_it_is_told_once():
    pool = Pool(n=1)
    exchange = sent(pool, 1.0)

    pool.director.on_unobserved(exchange, 2.0)
    pool.director.on_end(exchange, EndReason.COMPLETE, 2.0)

    assert len(pool.records) == 1
    assert counted(pool) == (1, 1)


def test_without_scrapes_it_is_over_at_its_expected_end():
    pool = Pool(n=1)
    sent(pool, 1.0)

    pool.core.upkeep.tick(1.0 + FIRST_GUESS_S - 0.1)
    before = counted(pool)
    pool.core.upkeep.tick(1.0 + FIRST_GUESS_S)

    assert (before, counted(pool)) == ((1, 1), (0, 0))
    assert pool.director.running.counts() == {}


def test_a_scrape_that_shows_nothing_ends_it():
    pool = Pool(n=1)
    sent(pool, 1.0)

    scraped(pool, 1.0 + ON_ITS_WAY_S, running=0)

    assert counted(pool) == (0, 0)


def test_a_scrape_says_nothing_of_a_request_that_may_not_have_been_there():
    pool = Pool(n=1)
    sent(pool, 1.0)

    scraped(pool, 1.0 + ON_ITS_WAY_S - 0.01, running=0)

    assert counted(pool) == (1, 1)


def test_without_an_answers_head_a_request_gets_longer_to_be_there():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT, 1.0)
    pool.director.on_unobserved(exchange, 1.0)

    scraped(pool, 1.0 + SETTLE_S - 0.01, running=0)
    before = counted(pool)
    scraped(pool, 1.0 + SETTLE_S, running=0)

    assert (before, counted(pool)) == ((1, 1), (0, 0))


def test_a_scrape_keeps_as_many_as_it_shows_and_the_youngest():
    pool = Pool(n=1)
    old, young = sent(pool, 1.0), sent(pool, 2.0)

    scraped(pool, 5.0, running=0, waiting=1)

    assert counted(pool) == (1, 1)
    assert old.counted_as == young.counted_as
    pool.core.upkeep.tick(2.0 + 4 * FIRST_GUESS_S)  # the one of 2.0 has the later end
    assert counted(pool) == (0, 0)


def test_requests_that_are_observed_are_not_taken_for_others():
    pool = Pool(n=1)
    pool.send(PROMPT, 1.0)
    sent(pool, 1.0)

    scraped(pool, 5.0, running=1)

    assert counted(pool) == (1, 0)


def test_while_scrapes_show_it_it_may_take_four_times_as_long():
    pool = Pool(n=1)
    sent(pool, 1.0)

    for at in (10.0, 12.0, 40.9):
        scraped(pool, at, running=1)
        pool.core.upkeep.tick(at)
    before = counted(pool)
    scraped(pool, 41.0, running=1)
    pool.core.upkeep.tick(41.0)

    assert (before, counted(pool)) == ((1, 1), (0, 0))


@pytest.mark.parametrize("metrics", [EndpointMetrics(), EndpointMetrics(waiting=0)])
def test_a_page_without_running_requests_says_nothing(metrics):
    pool = Pool(n=1)
    sent(pool, 1.0)
    endpoint = pool.endpoint(1)

    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, 5.0)

    assert counted(pool) == (1, 1)


def test_an_endpoint_without_unobserved_requests_loses_none():
    pool = Pool(n=1)
    pool.send(PROMPT, 1.0)

    scraped(pool, 5.0, running=0)

    assert counted(pool) == (1, 0)


def test_the_expected_duration_is_learned_from_ends_that_are_known():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT, 1.0)
    pool.answer(exchange, now=3.0)

    assert pool.director.unobserved.expected_s("m") == 2.0
    exchange, _ = pool.send(PROMPT, 10.0)
    pool.answer(exchange, now=22.0)
    assert pool.director.unobserved.expected_s("m") == pytest.approx(3.0)


def test_the_expected_duration_is_learned_from_scrapes():
    pool = Pool(n=1)
    sent(pool, 1.0)

    scraped(pool, 6.0, running=0)

    assert pool.director.unobserved.expected_s("m") == 5.0


def test_it_leaves_what_it_computed_in_the_index():
    pool = Pool(n=1)
    sent(pool, 1.0)
    scraped(pool, 5.0, running=0)

    assert pool.index.blocks(0, 0) > 0


def test_a_request_whose_status_nobody_shows_is_taken_for_a_success():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT, 1.0)
    pool.director.on_unobserved(exchange, 1.0)
    scraped(pool, 5.0, running=0)

    assert pool.index.blocks(0, 0) > 0
    assert pool.records[0].status is None


def test_a_request_that_failed_leaves_nothing_in_the_index():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT, 1.0)
    pool.director.on_response_head(exchange, 500, 1.0)
    pool.director.on_unobserved(exchange, 1.0)
    scraped(pool, 5.0, running=0)

    assert pool.index.blocks(0, 0) == 0
    assert counted(pool) == (0, 0)


def test_a_request_that_was_sent_elsewhere_holds_nothing():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT, 1.0)
    pool.director.on_served(exchange, "10.9.9.9:1")
    pool.director.on_unobserved(exchange, 1.0)

    assert counted(pool) == (0, 0)
    assert [(r.reason, r.endpoint) for r in pool.records] == [(EndReason.UNOBSERVED, None)]


def test_one_that_was_never_picked_is_over_at_once():
    pool = Pool(n=1)
    exchange = pool.open({"model": "m", "prompt": PROMPT})

    pool.director.on_unobserved(exchange, 1.0)

    assert counted(pool) == (0, 0)


def test_a_restarted_endpoint_counts_from_zero():
    pool = Pool(n=1)
    sent(pool, 1.0)
    pool.core.upkeep.sync_endpoints([], 2.0)
    pool.core.upkeep.sync_endpoints(pool.specs, 3.0)

    pool.core.upkeep.tick(1.0 + FIRST_GUESS_S)

    assert pool.ledger.total() == 0


def test_served_by_somebody_else_moves_ledger_and_claim():
    pool = Pool(n=2)
    exchange, target = pool.send(PROMPT, 1.0)
    other = next(e for e in (pool.endpoint(1), pool.endpoint(2)) if e.address != target.address)

    pool.director.on_served(exchange, other.address)

    assert pool.ledger.requests[other.slot] == 1
    assert pool.ledger.requests[target.slot] == 0
    assert pool.index.blocks(0, other.slot) > 0
    assert pool.index.blocks(0, target.slot) == 0
    assert exchange.target.address == other.address
    assert exchange.attempts == 1


def test_served_by_the_pick_and_after_the_end_change_nothing():
    pool = Pool(n=1)
    exchange, target = pool.send(PROMPT, 1.0)
    hold = exchange.hold

    pool.director.on_served(exchange, target.address)
    assert exchange.hold is hold
    exchange.hold = None
    pool.director.on_served(exchange, "10.9.9.9:1")
    assert exchange.target is target


def test_of_names_that_clients_make_up_those_of_long_ago_are_forgotten():
    pool = Pool(n=1)
    unobserved = pool.director.unobserved
    for number in range(1025):
        exchange, _ = pool.send(PROMPT, 1.0, model=f"m{number}")
        unobserved.learn(exchange, 3.0)

    assert (unobserved.expected_s("m0"), unobserved.expected_s("m1024")) == (FIRST_GUESS_S, 2.0)
