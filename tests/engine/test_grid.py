"""Step times as measured: between the points, beyond them, and in steps of both kinds."""

import pytest

from epp.engine import Grid, GridLatency, StepLoad

PREFILL = Grid((100.0, 1000.0), (0.0, 10_000.0), ((0.02, 0.03), (0.11, 0.15)))
DECODE = Grid((1.0, 11.0), (1_000.0, 3_000.0), ((0.010, 0.012), (0.020, 0.040)))
LATENCY = GridLatency(PREFILL, DECODE, link_bytes_per_s=1e9, link_latency_s=0.001)


def prefill(tokens, context=0):
    return StepLoad(tokens, tokens * (context + tokens / 2), 0, 0)


@pytest.mark.parametrize(
    ("row", "column", "seconds"),
    [
        (100, 0, 0.02),
        (550, 0, 0.065),
        (550, 5_000, 0.0775),
        (2_000, 0, 0.21),
        (100, 20_000, 0.04),
        (0, 0, 0.01),
    ],
)
def test_it_is_linear_between_points_and_beyond(row, column, seconds):
    assert PREFILL.at(row, column) == pytest.approx(seconds)


def test_it_never_falls_below_zero():
    assert Grid((10.0, 20.0), (0.0,), ((0.001,), (0.003,))).at(0.0, 0.0) == 0.0


def test_a_single_point_is_a_constant():
    assert Grid((5.0,), (0.0,), ((0.5,),)).at(900.0, 900.0) == 0.5


def test_prefills_and_decodes_alone_are_as_measured():
    assert LATENCY.step_s(prefill(1_000, 10_000)) == pytest.approx(0.15)
    assert LATENCY.step_s(StepLoad(11, 0.0, 11, 33_000)) == pytest.approx(0.040)


def test_in_a_mixed_step_decodes_add_what_they_attend_to():
    """11 decodes at 3,000 tokens take 40 ms, at none 10 ms."""
    mixed = StepLoad(111, 100 * 50.0, 11, 33_000)

    assert LATENCY.step_s(mixed) == pytest.approx(PREFILL.at(111, 0) + 0.030)


def test_a_fleet_may_change_it():
    assert LATENCY.scaled(2.0).step_s(prefill(100)) == pytest.approx(0.04)
    assert LATENCY.with_overhead(0.001).scaled(2.0).step_s(prefill(100)) == pytest.approx(0.042)
    assert LATENCY.load_s(10_000_000) == pytest.approx(0.011)
    assert LATENCY.with_link(2e9).load_s(10_000_000) == pytest.approx(0.006)
    assert LATENCY.with_link(2e9, 0.0).load_s(10_000_000) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("rows", "columns", "seconds", "message"),
    [
        ((), (0.0,), (), "rows must be ascending"),
        ((2.0, 1.0), (0.0,), ((1.0,), (1.0,)), r"rows must be ascending numbers from 0 on, got \[2.0, 1.0\]"),
        ((1.0,), (-1.0,), ((1.0,),), "columns must be ascending"),
        ((1.0, 2.0), (0.0,), ((1.0,),), "2 rows need as many rows of times, got 1"),
        ((1.0,), (0.0, 5.0), ((1.0,),), "the row of 1 needs 2 times, one a column, got 1"),
        ((1.0,), (0.0,), ((0.0,),), "the row of 1 has a time that is not positive"),
        ((1.0,), (0.0,), ((float("nan"),),), "not positive"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(rows, columns, seconds, message):
    with pytest.raises(ValueError, match=message):
        Grid(rows, columns, seconds)


@pytest.mark.parametrize("fields", [{"link_bytes_per_s": 0.0}, {"link_latency_s": -1.0}])
def test_a_link_that_cannot_be_is_refused(fields):
    with pytest.raises(ValueError, match="the link's bandwidth must be positive"):
        GridLatency(PREFILL, DECODE, **fields)


def test_a_factor_must_be_positive():
    with pytest.raises(ValueError, match="must be positive, got 0"):
        LATENCY.scaled(0)
