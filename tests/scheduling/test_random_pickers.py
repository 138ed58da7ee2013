"""random-picker and weighted-random-picker."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.pickers.random_order import RandomParameters, RandomPicker
from epp.scheduling.pickers.weighted_random import WeightedRandomPicker
from tests.scheduling.builders import context, cycle, fleet, slots_of


def first_picks(picker, totals, draws=4000):
    c = cycle(fleet(len(totals)))
    return Counter(next(picker.order(c, totals, 1.0)).slot for _ in range(draws))


def test_random_picker_ignores_totals():
    counts = first_picks(RandomPicker("r", random.Random(3)), [1.0, 0.0, 0.0, 0.0])

    assert all(850 <= counts[slot] <= 1150 for slot in range(4))


def test_weighted_random_picks_by_share_of_the_totals():
    counts = first_picks(WeightedRandomPicker("w", random.Random(3)), [3.0, 1.0, 0.0])

    assert 2850 <= counts[0] <= 3150
    assert 850 <= counts[1] <= 1150
    assert counts[2] == 0


def test_weighted_random_with_all_zero_is_a_shuffle():
    counts = first_picks(WeightedRandomPicker("w", random.Random(3)), [0.0, 0.0])

    assert 1850 <= counts[0] <= 2150


def test_tiny_totals_still_count_by_their_ratio():
    counts = first_picks(WeightedRandomPicker("w", random.Random(3)), [3e-300, 1e-300])

    assert 2850 <= counts[0] <= 3150


def test_zero_totals_come_last():
    picker = WeightedRandomPicker("w", random.Random(3))
    for _ in range(50):
        slots = slots_of(picker.order(cycle(fleet(4)), [0.0, 1.0, 0.0, 2.0], 1.0))

        assert set(slots[:2]) == {1, 3}
        assert set(slots[2:]) == {0, 2}


@pytest.mark.parametrize("made", [RandomPicker, WeightedRandomPicker])
def test_same_seed_same_order(made):
    totals = [0.5, 0.25, 0.0, 1.0]

    one, other = (slots_of(made("p", random.Random(9)).order(cycle(fleet(4)), totals, 1.0)) for _ in range(2))

    assert one == other


@pytest.mark.parametrize("made", [RandomPicker, WeightedRandomPicker])
def test_factory_passes_parameters_on(made):
    picker = made.build("p", RandomParameters(max_endpoints=2), context())

    assert (picker.name, picker.max_endpoints) == ("p", 2)


@pytest.mark.parametrize("made", [RandomPicker, WeightedRandomPicker])
@given(totals=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=20), seed=st.integers(0, 1000))
def test_order_is_a_permutation(made, totals, seed):
    slots = slots_of(made("p", random.Random(seed)).order(cycle(fleet(len(totals))), totals, 5.0))

    assert sorted(slots) == list(range(len(totals)))
