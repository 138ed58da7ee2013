"""max-score-picker: the order and the tie rule."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.pickers.max_score import MaxScoreParameters, MaxScorePicker
from tests.scheduling.builders import context, cycle, endpoint, fleet, ledger, slots_of


def picker(tie_break="inFlight", seed=1):
    return MaxScorePicker("p", random.Random(seed), tie_break=tie_break)


def order(totals, *, weight_sum=1.0, tie_break="inFlight", seed=1, **books):
    c = cycle(fleet(len(totals)), ledger=ledger(**books))
    return slots_of(picker(tie_break, seed).order(c, totals, weight_sum))


def test_higher_totals_come_first():
    assert order([0.1, 0.9, 0.5]) == [1, 2, 0]


def test_one_candidate_is_the_order():
    assert order([0.0]) == [0]


@pytest.mark.parametrize(
    "totals, weight_sum, expected",
    [
        ([1.00, 0.99], 1.0, [1, 0]),  # 1 % of 1 below: a tie, and the second is idle
        ([1.00, 0.98], 1.0, [0, 1]),  # 2 % below: none
        ([4.00, 3.95], 6.0, [1, 0]),  # within 0.06
        ([4.00, 3.93], 6.0, [0, 1]),
    ],
)
def test_totals_within_one_percent_of_the_weight_sum_are_a_tie(totals, weight_sum, expected):
    assert order(totals, weight_sum=weight_sum, requests=[5, 0]) == expected


def test_ties_go_to_least_in_flight_then_least_recently_picked():
    requests, last_picked = [2, 1, 1, 0, 1], [1, 7, 3, 9, 5]

    assert order([1.0] * 5, requests=requests, last_picked=last_picked) == [3, 2, 4, 1, 0]


def test_never_picked_comes_before_picked():
    assert order([1.0] * 3, last_picked=[4, 0, 2]) == [1, 2, 0]


def test_bands_start_at_the_best_of_those_left():
    # 1.00 and 0.995 are a band; 0.98, 0.975 and 0.97 the next; 0.5 stands alone.
    totals = [0.5, 0.97, 0.98, 0.975, 0.995, 1.0]

    assert order(totals, requests=[0, 0, 9, 1, 0, 3]) == [4, 5, 1, 3, 2, 0]


def test_without_scorers_load_decides():
    assert order([0.0, 0.0, 0.0], weight_sum=0.0, requests=[2, 0, 1]) == [1, 2, 0]


def test_a_tie_in_everything_is_drawn_from_the_seeded_generator():
    firsts = Counter(order([1.0] * 4, seed=seed)[0] for seed in range(400))

    assert all(60 <= firsts[slot] <= 140 for slot in range(4))
    assert order([1.0] * 4, seed=7) == order([1.0] * 4, seed=7)


def test_later_endpoints_are_ordered_by_the_ledger_as_it_is_when_they_are_asked_for():
    book = ledger(requests=[0, 1, 2])
    found = picker().order(cycle(fleet(3), ledger=book), [1.0] * 3, 1.0)

    assert next(found).slot == 0
    book.requests[1] = 9
    assert slots_of(found) == [2, 1]


def test_order_follows_the_candidates_it_was_given():
    c = cycle((endpoint(2), endpoint(5)), ledger=ledger([0, 0, 1, 0, 0, 0]))
    found = picker().order(c, [1.0, 1.0], 1.0)
    c.candidates = ()

    assert slots_of(found) == [5, 2]


def burst(count, endpoints, release_after=None):
    """Picks with all totals equal; each is taken at once and released after the next `release_after` picks."""
    book, made = ledger(size=endpoints), picker()
    picked = []
    for _ in range(count):
        c = cycle(fleet(endpoints), ledger=book)
        slot = next(made.order(c, [1.0] * endpoints, 1.0)).slot
        book.take(slot, 0)
        picked.append(slot)
        if release_after is not None and len(picked) > release_after:
            book.release_request(picked[-1 - release_after], 0)
    return Counter(picked)


def test_a_thousand_sequential_ties_over_four_spread_evenly():
    assert burst(1000, 4, release_after=0) == {0: 250, 1: 250, 2: 250, 3: 250}


def test_a_burst_of_64_before_any_refresh_spreads_over_four():
    assert max(burst(64, 4).values()) <= 17


def test_random_ties_are_equal_totals_only():
    assert order([1.0, 0.995, 0.5], tie_break="random", requests=[9, 0, 0]) == [0, 1, 2]


def test_random_ties_ignore_load():
    firsts = Counter(
        order([1.0, 1.0], tie_break="random", seed=seed, requests=[9, 0])[0] for seed in range(400)
    )

    assert 150 <= firsts[0] <= 250


def test_random_ties_survive_the_rounding_of_sums():
    firsts = {order([0.1 + 0.2, 0.3], tie_break="random", seed=seed)[0] for seed in range(50)}

    assert firsts == {0, 1}


def test_factory_passes_parameters_on():
    made = MaxScorePicker.build("p", MaxScoreParameters(max_endpoints=3, tie_break="random"), context())

    assert (made.name, made.type, made.max_endpoints) == ("p", "max-score-picker", 3)
    c = cycle(fleet(2), ledger=ledger([9, 0]))
    assert {next(made.order(c, [1.0, 1.0], 1.0)).slot for _ in range(50)} == {0, 1}


totals = st.lists(st.floats(0.0, 6.0), min_size=1, max_size=30)


@given(totals, st.sampled_from(["inFlight", "random"]), st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_order_is_a_permutation_whose_totals_fall_by_bands(values, tie_break, requests):
    slots = order(values, weight_sum=6.0, tie_break=tie_break, requests=requests)

    assert sorted(slots) == list(range(len(values)))
    best_left = [max(values[slot] for slot in slots[place:]) for place in range(len(slots))]
    assert all(values[slot] >= best - 0.06 - 1e-9 for slot, best in zip(slots, best_left, strict=True))


@given(totals, st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_the_first_is_the_least_loaded_of_the_best_band(values, requests):
    first = order(values, weight_sum=6.0, requests=requests)[0]

    band = [slot for slot, total in enumerate(values) if total >= max(values) - 0.06]
    assert first in band
    assert requests[first] == min(requests[slot] for slot in band)


def test_the_first_is_sought_among_the_contenders_and_the_others_among_all():
    totals = [0.5, 0.995, 0.25, 1.0, 0.9]

    found = picker().order(cycle(fleet(5), ledger=ledger([0, 1, 0, 2, 0])), totals, 1.0, [1, 3, 4])

    assert slots_of(found) == [1, 3, 4, 0, 2]
