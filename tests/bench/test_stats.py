"""Medians, spreads, pairs and growth."""

import pytest

from bench.suite.stats import growth, median, paired_differences, spread


def test_the_median_of_nothing_is_none():
    assert median([]) is None
    assert median([3.0, 1.0, 2.0]) == 2.0


def test_the_spread_is_half_the_range_in_parts_of_the_median():
    assert spread([90.0, 100.0, 120.0]) == pytest.approx(0.15)


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0]])
def test_a_spread_without_a_meaning_is_none(values):
    assert spread(values) is None


def test_differences_are_taken_run_by_run_and_a_lone_run_is_left_out():
    assert paired_differences([5.0, 7.0, 9.0], [1.0, 2.0]) == [4.0, 5.0]


@pytest.mark.parametrize(
    ("points", "exponent"),
    [
        ([(1, 10.0), (10, 10.0), (100, 10.0)], 0.0),
        ([(1, 10.0), (10, 100.0)], 1.0),
        ([(100, 10.0), (1, 10.0), (10, 1000.0)], 2.0),  # a cliff in the middle of a flat curve
        ([(1, 0.0), (10, 5.0)], None),  # nothing was read at the first point
        ([(1, 10.0)], None),
    ],
)
def test_growth_is_the_steepest_exponent_between_neighbours(points, exponent):
    assert growth(points) == (None if exponent is None else pytest.approx(exponent))
