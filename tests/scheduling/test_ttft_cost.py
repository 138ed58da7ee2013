"""ttft-cost-scorer: each term of the cost, what it learns, and what it forgets."""

from dataclasses import replace

import msgspec
import pytest

from epp.endpoints.types import EndpointMetrics
from epp.scheduling.contracts import PickObserver, PrefixMatch, ResponseObserver
from epp.scheduling.producers.flights import EndpointFlights, Flight, common_blocks
from epp.scheduling.producers.latency import LearnedLatency, Work
from epp.scheduling.scorers.ttft_cost import TtftCostParameters, TtftCostScorer
from tests.scheduling.builders import REQUEST, context, cycle, endpoint, fleet

NOTHING = Work(0.0, 0.0, 0.0)


# -------------------------------------------------------------------- learned latency


def truth(work, fixed=0.05, token=30e-6, load=4e-6):
    effective = work.miss * (1 + (work.hit + work.miss / 2) / 39_000)
    return fixed + token * effective + load * work.load


WORKS = [
    Work(miss, hit, load) for miss in (200.0, 2_000.0, 20_000.0) for hit, load in ((0, 0), (8_000, 8_000))
]


@pytest.mark.parametrize("token", [15e-6, 60e-6, 240e-6])
def test_another_machine_is_learned_from_its_answers(token):
    learned = LearnedLatency()
    for work in WORKS * 30:
        learned.learn(work, truth(work, token=token))
    work = Work(12_000.0, 3_000.0, 0.0)

    assert learned.fixed_s + learned.prefill_s(work) == pytest.approx(truth(work, token=token), rel=0.1)


def test_the_start_is_qwen3_32b_on_two_h100():
    learned = LearnedLatency()

    assert learned.prefill_s(Work(8_192.0, 0.0, 0.0)) == pytest.approx(0.52, rel=0.05)


def test_a_time_with_another_reason_is_not_learned():
    learned = LearnedLatency()
    learned.learn(Work(8_192.0, 0.0, 0.0), 100.0)

    assert learned.samples == 0
    assert learned.prefill_s(Work(8_192.0, 0.0, 0.0)) == pytest.approx(0.52, rel=0.05)


def test_times_that_stay_strange_are_the_truth():
    learned = LearnedLatency()
    for _ in range(60):
        learned.learn(Work(8_192.0, 0.0, 0.0), 10.0)

    assert learned.fixed_s + learned.prefill_s(Work(8_192.0, 0.0, 0.0)) == pytest.approx(10.0, rel=0.1)


def test_without_news_of_loads_their_coefficient_stays():
    learned = LearnedLatency()
    for _ in range(5_000):
        learned.learn(Work(4_000.0, 0.0, 0.0), truth(Work(4_000.0, 0.0, 0.0)))

    assert learned.prefill_s(Work(0.0, 10_000.0, 10_000.0)) == pytest.approx(0.1, abs=0.05)


# -------------------------------------------------------------------- chains


@pytest.mark.parametrize(
    ("one", "other", "blocks"),
    [
        ([], [1], 0),
        ([1], [], 0),
        ([1, 2], [3, 4], 0),
        ([1, 2, 3], [1, 2, 3, 4], 3),
        ([1, 2, 9], [1, 2, 3, 4], 2),
        ([1, 5, 9], [1, 2, 3], 1),
        ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 0, 0, 0], 5),
    ],
)
def test_common_blocks_of_two_chains(one, other, blocks):
    assert common_blocks(one, other) == blocks


# -------------------------------------------------------------------- shadow state


def flight(tokens=100.0, prefill_s=1.0, sent_s=0.0, **fields):
    return Flight(0, sent_s, NOTHING, prefill_s, clear=True, tokens=tokens, **fields)


def test_prefill_counts_until_the_first_token():
    flights = EndpointFlights()
    one, other = flight(prefill_s=1.0), flight(prefill_s=2.0, sent_s=4.0)
    flights.add(1, one)
    flights.add(2, other)
    assert (flights.prefill_s, flights.pending, flights.decoding) == (3.0, 2, 0)

    flights.first_token(one, 5.0)
    flights.first_token(one, 6.0)
    assert (flights.prefill_s, flights.pending, flights.decoding) == (2.0, 1, 1)
    assert flights.oldest_wait_s(7.0) == 3.0

    flights.remove(2, 8.0)
    assert (flights.prefill_s, flights.oldest_wait_s(9.0)) == (0.0, 0.0)


def test_what_requests_share_counts_once():
    flights = EndpointFlights()
    flights.add(1, flight(tokens=100.0, chain=[1, 2, 3]))
    overlaps = flights.overlaps([1, 2, 7], 20.0)
    flights.add(2, flight(tokens=90.0, overlaps=overlaps))

    assert overlaps == {1: 40.0}
    assert flights.held_tokens == 150.0

    flights.remove(1, 1.0)
    assert flights.held_tokens == 90.0


@pytest.mark.parametrize(
    ("chain", "blocks"),
    [((), 0), ((9, 2), 0), ((1, 2), 2), ((1, 9), 1), ((1, 2, 3, 4, 8, 9), 4), ((1, 2, 6, 7, 8), 2)],
)
def test_blocks_that_some_request_holds(chain, blocks):
    flights = EndpointFlights()
    flights.add(1, flight(chain=[1, 2, 3]))
    flights.add(2, flight(chain=[1, 2, 3, 4]))
    flights.add(3, flight(chain=[1, 2, 5]))

    assert flights.shared_blocks(chain) == blocks


def test_blocks_are_held_until_the_last_of_their_requests_has_ended():
    flights = EndpointFlights()
    flights.add(1, flight(chain=[1, 2, 3]))
    flights.add(2, flight(chain=[1, 2]))
    flights.remove(1, 1.0)
    assert flights.shared_blocks([1, 2, 3]) == 2

    flights.remove(2, 1.0)
    assert flights.shared_blocks([1, 2, 3]) == 0


@pytest.mark.parametrize(
    ("needed", "seconds"), [(50.0, 0.0), (51.0, 7.0), (150.0, 7.0), (151.0, 13.0), (999.0, 13.0)]
)
def test_room_comes_as_answers_end(needed, seconds):
    """One answer under way frees 100 tokens at 12 s, one that waits for 3 s of prefill 50 at 18 s."""
    flights = EndpointFlights(itl_s=0.1)
    decoding, waiting = flight(), flight(tokens=50.0, prefill_s=3.0)
    flights.add(1, decoding)
    flights.add(2, waiting)
    flights.first_token(decoding, 2.0)

    assert flights.wait_s(needed, 0.0, capacity=200.0, now=5.0, answer_tokens=100.0) == seconds
    assert flights.wait_s(needed + 30.0, 30.0, capacity=200.0, now=5.0, answer_tokens=100.0) == seconds


def queue_of(*tokens, overlaps=None):
    """Requests that were sent at 0 to an endpoint of 100 tokens, where the first has its first token at 1."""
    flights = EndpointFlights(itl_s=0.1)
    for number, own in enumerate(tokens):
        shared = overlaps if overlaps and number else {}
        flights.add(number, flight(tokens=own, prefill_s=2.0, overlaps=shared))
    flights.first_token(flights.flights[0], 1.0)
    return flights


def test_those_that_wait_are_let_in_one_after_the_other():
    """80 tokens until 11 s, then 80 until 23 s (2 s of prefill, 10 s of answer), and so on."""
    flights = queue_of(80.0, 80.0, 80.0)

    assert flights.wait_s(80.0, 0.0, capacity=100.0, now=1.0, answer_tokens=100.0) == 11.0 + 12.0 + 12.0 - 1.0


def test_the_plan_is_made_anew_when_something_has_changed():
    flights = queue_of(80.0, 80.0)
    assert flights.wait_s(80.0, 0.0, 100.0, 1.0, 100.0) == 22.0
    assert flights.wait_s(80.0, 0.0, 100.0, 2.0, 100.0) == 21.0

    flights.first_token(flights.flights[1], 13.0)
    assert flights.wait_s(80.0, 0.0, 100.0, 13.0, 100.0) == 10.0
    flights.remove(0, 14.0)
    flights.remove(1, 14.0)
    assert flights.wait_s(80.0, 0.0, 100.0, 14.0, 100.0) == 0.0


def test_who_is_gone_when_one_is_let_in_shares_nothing():
    """The second shares 70 of its 80 tokens with the first; the third would too, but that one has ended."""
    beside = queue_of(80.0, 80.0, overlaps={0: 70.0})
    after = queue_of(80.0, 90.0, 80.0, overlaps={0: 70.0})

    assert beside.wait_s(10.0, 0.0, 100.0, 1.0, 100.0) == 0.0
    assert beside.wait_s(80.0, 70.0, 100.0, 1.0, 100.0) == 0.0
    assert after.flights[2].own_tokens({0: 11.0}, 5.0) == 10.0
    assert after.flights[2].own_tokens({0: 11.0}, 11.0) == 80.0


def test_one_that_waits_for_others_that_wait_counts_on_sharing_with_nobody():
    flights = queue_of(80.0, 80.0)

    assert (
        flights.wait_s(80.0, 70.0, 100.0, 1.0, 100.0) == flights.wait_s(80.0, 0.0, 100.0, 1.0, 100.0) == 22.0
    )


def test_time_between_tokens_moves_with_answers():
    flights = EndpointFlights(itl_s=0.020)
    one = flight()
    flights.learn_itl(one, 5.0, 101)  # no first token was seen
    one.first_token_s = 0.0
    flights.learn_itl(one, 12.0, 1)  # a single token has no time between
    assert flights.itl_s == 0.020

    flights.learn_itl(one, 12.0, 101)
    assert flights.itl_s == pytest.approx(0.020 + 0.05 * 0.100)


# -------------------------------------------------------------------- the scorer


def scorer(**parameters):
    return TtftCostScorer.build("cost", TtftCostParameters(**parameters), context())


def request(stream=True, limit=None):
    return msgspec.structs.replace(REQUEST, stream=stream, max_output_tokens=limit)


def test_it_observes_picks_and_answers():
    assert isinstance(scorer(), PickObserver)
    assert isinstance(scorer(), ResponseObserver)


def test_idle_endpoints_are_rated_by_what_they_hold():
    matches = {"gpu": PrefixMatch(((0b10, 90),), 100, 100.0)}
    costs = scorer().costs(cycle(fleet(3), matches=matches, prompt_tokens=10_000))

    assert costs[0] == costs[2] == pytest.approx(0.6 * (1 + 5_000 / 39_000))
    assert costs[1] == pytest.approx(0.06 * (1 + 9_500 / 39_000))


def test_the_score_is_the_least_cost_over_the_cost():
    matches = {"gpu": PrefixMatch(((0b10, 99),), 100, 100.0)}
    plugin = scorer()
    one = cycle(fleet(2), matches=matches, prompt_tokens=10_000)
    costs = plugin.costs(one)

    assert plugin.score(one) == [pytest.approx((costs[1] + 0.02) / (costs[0] + 0.02)), 1.0]


def test_a_cpu_hit_costs_its_transfer():
    plugin = TtftCostScorer("cost", frozenset({"cpu"}))
    matches = {"gpu": PrefixMatch((), 100, 100.0), "cpu": PrefixMatch(((0b1, 90),), 100, 100.0)}
    (cost,) = plugin.costs(cycle(fleet(1), matches=matches, prompt_tokens=10_000))

    assert cost == pytest.approx(0.06 * (1 + 9_500 / 39_000) + 0.09)


def test_what_was_sent_there_is_in_the_way_until_its_first_token():
    plugin, pool = scorer(decode_harm=0.0, memory_price=0.0), fleet(2)
    first = cycle(pool, request=request(), prompt_tokens=10_000)
    plugin.on_picked(first, pool[0])
    alone, behind = 0.6 * (1 + 5_000 / 39_000), 2 * 0.6 * (1 + 5_000 / 39_000)
    later = cycle(pool, request=request(), prompt_tokens=10_000, now=0.1)
    assert plugin.costs(later) == [pytest.approx(behind), pytest.approx(alone)]

    plugin.on_first_token(first, 0.7)
    assert plugin.costs(later)[0] == pytest.approx(plugin.costs(later)[1], rel=0.01)


def test_prefill_harms_answers_under_way():
    plugin, pool = scorer(decode_harm=0.5, memory_price=0.0), fleet(2)
    first = cycle(pool, request=request(stream=False), prompt_tokens=100)
    plugin.on_picked(first, pool[0])
    plugin.on_first_token(first, 0.1)
    costs = plugin.costs(cycle(pool, request=request(), prompt_tokens=10_000, now=1.0))

    assert costs[0] == pytest.approx(1.5 * costs[1])


def test_memory_is_waited_for_and_has_a_price():
    metrics = EndpointMetrics(gpu_capacity_tokens=20_000)
    pool = (endpoint(0, metrics=metrics), endpoint(1, metrics=metrics))
    first = cycle(
        pool, request=request(limit=100), prompt_tokens=15_000, chain=(1, 2), chain_block_tokens=64.0
    )
    other = cycle(
        pool, request=request(limit=100), prompt_tokens=10_000, chain=(3, 4), chain_block_tokens=64.0
    )
    waiting, priced = scorer(memory_price=0.0, decode_harm=0.0), scorer(decode_harm=0.0)
    for plugin in (waiting, priced):
        plugin.on_picked(first, pool[0])
        plugin.on_first_token(first, 0.0)
    alone = 0.6 * (1 + 5_000 / 39_000)

    assert waiting.costs(other) == [pytest.approx(alone + 2.5, rel=0.02), pytest.approx(alone, rel=0.02)]
    share = 10_100 / 20_000 * 15_100 / 20_000
    assert priced.costs(other)[0] - waiting.costs(other)[0] == pytest.approx(share * 2.5)


def test_what_nobody_uses_is_held_only_where_room_is_left():
    """15,100 of 20,000 tokens are taken, so that at most 4,900 of a match of 9,000 can still be there."""
    pool = (endpoint(0, metrics=EndpointMetrics(gpu_capacity_tokens=20_000)),)
    plugin = scorer(memory_price=0.0, decode_harm=0.0)
    first = cycle(pool, request=request(limit=100), prompt_tokens=15_000, chain=(1,), chain_block_tokens=64.0)
    plugin.on_picked(first, pool[0])
    matches = {"gpu": PrefixMatch(((0b1, 90),), 100, 100.0)}
    other = cycle(pool, request=request(limit=100), prompt_tokens=10_000, matches=matches)
    plugin.on_picked(other, pool[0])

    assert plugin._flying[id(other.request)][2].work == Work(miss=5_100.0, hit=4_900.0, load=0.0)


def test_a_request_that_has_waited_too_long_keeps_others_away():
    plugin, pool = scorer(max_wait_s=30.0, memory_price=0.0), fleet(2)
    plugin.on_picked(cycle(pool, request=request(), prompt_tokens=100), pool[0])
    at_30 = plugin.costs(cycle(pool, request=request(), prompt_tokens=100, now=30.0))
    at_31 = plugin.costs(cycle(pool, request=request(), prompt_tokens=100, now=31.0))

    assert at_30[0] < 1.0
    assert at_31[0] > 31.0


def test_only_streams_that_found_nothing_in_their_way_teach():
    plugin, pool = scorer(), fleet(1)
    clear = cycle(pool, request=request(), prompt_tokens=8_192)
    queued = cycle(pool, request=request(), prompt_tokens=8_192)
    plugin.on_picked(clear, pool[0])
    plugin.on_picked(queued, pool[0])
    plugin.on_first_token(clear, 0.5)
    plugin.on_first_token(queued, 1.0)
    latency = plugin._learned["m"].latency
    assert latency.samples == 1

    plugin.on_ended(clear, 2.0, 10)
    plugin.on_ended(queued, 2.0, 10)
    whole = cycle(pool, request=request(stream=False), prompt_tokens=8_192, now=3.0)
    plugin.on_picked(whole, pool[0])
    plugin.on_first_token(whole, 5.0)
    assert latency.samples == 1


def test_a_request_that_ended_leaves_nothing_and_teaches_its_length():
    plugin, pool = scorer(), fleet(1)
    one = cycle(pool, request=request(), prompt_tokens=100)
    plugin.on_picked(one, pool[0])
    plugin.on_ended(one, 1.0, 56)
    plugin.on_ended(one, 2.0, 56)
    plugin.on_first_token(one, 3.0)

    assert plugin._learned["m"].output_tokens == 236.0
    assert plugin._flying == {}
    assert plugin._endpoints[0].flights == {}


def test_a_request_that_is_sent_again_is_where_it_went_last():
    plugin, pool = scorer(), fleet(2)
    one = cycle(pool, request=request(), prompt_tokens=100)
    plugin.on_picked(one, pool[0])
    plugin.on_picked(one, pool[1])

    assert plugin._endpoints[0].flights == {}
    assert len(plugin._endpoints[1].flights) == 1


def test_a_number_is_never_given_twice():
    """A request that comes after another's end is not taken for that one, whatever address it has in memory."""
    plugin, pool = scorer(), fleet(1)
    kept = cycle(pool, request=request(), prompt_tokens=100, chain=(1, 2), chain_block_tokens=50.0)
    first = cycle(pool, request=request(), prompt_tokens=100, chain=(1, 2), chain_block_tokens=50.0)
    plugin.on_picked(first, pool[0])
    plugin.on_picked(kept, pool[0])
    plugin.on_ended(first, 1.0, 10)
    plugin.on_picked(replace(first, request=request(limit=1), chain=(7,)), pool[0])
    flights = plugin._endpoints[0]

    assert list(flights.flights) == [1, 2]
    assert flights._own(flights.flights[1]) == flights.flights[1].tokens


@pytest.mark.parametrize(
    ("waiting", "running", "own", "others"),
    [
        (0.0, 5.0, 0, 0.0),
        (3.0, 5.0, 0, 3.0),
        (3.0, 2.0, 1, 3.0),
        (3.0, 0.0, 1, 2.0),
        (1.0, None, 1, 0.0),
        (2.0, 1.0, 5, 0.0),
    ],
)
def test_what_waits_there_and_was_sent_by_others_counts_as_the_mean_of_our_own(waiting, running, own, others):
    """0.2 s each, before any of ours is known."""
    metrics = EndpointMetrics(waiting=waiting, running=running)
    pool = (endpoint(0, metrics=metrics), endpoint(1))
    plugin = scorer(decode_harm=0.0, memory_price=0.0)
    sent = [cycle(pool, request=request(), prompt_tokens=1) for _ in range(own)]
    for one in sent:
        plugin.on_picked(one, pool[0])
        plugin.on_first_token(one, 0.0)
    plugin.learned("m").prefill_s = 0.2
    here, there = plugin.costs(cycle(pool, request=request(), prompt_tokens=1_000))

    assert here - there == pytest.approx(0.2 * others)


def test_a_stale_endpoint_tells_nothing_of_others():
    pool = (endpoint(0, metrics=EndpointMetrics(waiting=9.0), fresh=False), endpoint(1))
    here, there = scorer().costs(cycle(pool, request=request(), prompt_tokens=1_000))

    assert here == there


def test_the_mean_prefill_moves_with_what_is_sent():
    plugin, pool = scorer(), fleet(1)
    plugin.on_picked(cycle(pool, request=request(), prompt_tokens=10_000), pool[0])

    assert plugin.learned("m").prefill_s == pytest.approx(0.2 + 0.1 * (0.6 * (1 + 5_000 / 39_000) - 0.2))


def test_of_many_that_share_with_a_request_those_that_share_most_are_remembered():
    flights = EndpointFlights()
    for number in range(50):
        flights.add(number, flight(chain=[1, 2, 3] if number in (4, 9) else [1]))
    overlaps = flights.overlaps([1, 2, 3], 10.0)

    assert overlaps == {4: 30.0, 9: 30.0} | dict.fromkeys(range(20, 50), 10.0)


def test_one_that_ended_just_now_may_still_be_in_the_last_scrape():
    flights = EndpointFlights()
    flights.add(1, flight())
    flights.add(2, flight())
    flights.remove(1, 5.0)

    assert [flights.shown(now) for now in (5.0, 5.9, 6.0)] == [2, 2, 1]
