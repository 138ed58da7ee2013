"""Bars of routing policies: met and missed, from literal figures."""

import pytest

from bench.policies.bars import Bar, overload_bars, policy_bars, robustness_bars, speed_bars
from bench.policies.page import as_markdown, as_text

ROW = {
    "ttft_mean_s": 1.0,
    "ttft_p50_s": 0.5,
    "ttft_p90_s": 3.0,
    "ttft_p99_s": 9.0,
    "e2e_mean_s": 20.0,
    "tok_s": 54_000.0,
    "goodput": 0.82,
    "ttft_mean_s spread": 0.2,
    "goodput spread": 0.04,
}


def row(**fields):
    return ROW | fields


def met(bars):
    return {bar.name: bar.met for bar in bars}


def test_a_bar_is_a_most_or_a_least():
    assert Bar("a", 1.0, 1.0).met
    assert not Bar("a", 1.01, 1.0).met
    assert Bar("a", 1.0, 1.0, least=True).met
    assert not Bar("a", 0.99, 1.0, least=True).met


def test_the_high_cache_rows_have_absolute_bars():
    found = {"high native": {"ttft-cost": row(ttft_p90_s=6.1)}, "high HBM": {"ttft-cost": row(tok_s=49_999)}}

    assert met(policy_bars(found)) == {
        "high native: mean TTFT, s": True,
        "high native: P90 TTFT, s": False,
        "high native: tokens/s": True,
        "high HBM: mean TTFT, s": True,
        "high HBM: tokens/s": False,
    }


def test_the_low_cache_row_is_held_against_2211():
    found = {
        "low native": {"ttft-cost": row(e2e_mean_s=20.3, tok_s=53_500), "tiered-2211": row(ttft_mean_s=0.97)}
    }

    assert met(policy_bars(found)) == {
        "low native: E2E over 2:2:1:1's": False,
        "low native: tokens/s over 2:2:1:1's": True,
        "low native: mean TTFT above 2:2:1:1's, s": False,
    }


@pytest.mark.parametrize(
    ("goodput", "holds"), [(0.81, (True, True)), (0.79, (False, True)), (0.77, (False, False))]
)
def test_goodput_of_a_trace_has_a_bar_and_is_held_against_the_best_peer(goodput, holds):
    peers = {"lmetric": row(goodput=0.80), "dynamo": row(goodput=0.75)}
    found = {"synthetic 1.0": {"ttft-cost": row(goodput=goodput), **peers}}
    bars = list(policy_bars(found))

    assert tuple(bar.met for bar in bars) == holds
    assert bars[1].against == "lmetric"


def test_each_rate_of_the_ladder_is_held_against_its_own_best_peer():
    ours = {f"ttft_mean_s at {rate}": 1.0 for rate in ("10", "20", "30", "40")}
    one = dict.fromkeys(ours, 0.99) | {"ttft_mean_s at 20": 0.5}
    other = ours | {"ttft_mean_s at 40": 0.95}
    found = {"ladder": {"ttft-cost": row(**ours), "sglang": row(**one), "dynamo": row(**other)}}

    assert [(bar.met, bar.against) for bar in policy_bars(found)] == [
        (True, "sglang"), (False, "sglang"), (True, "sglang"), (True, "dynamo"),
    ]  # fmt: skip


def test_the_default_is_held_against_least_in_flight():
    found = {
        "ladder": {"default": row(ttft_mean_s=1.1), "least-in-flight": row()},
        "conversation 1.4": {"default": row(goodput=0.83), "least-in-flight": row()},
    }

    assert [bar.met for bar in policy_bars(found)] == [False, True]


def test_a_mistaken_router_may_be_1_6_times_as_slow_and_an_overloaded_one_no_worse_at_p99():
    bars = robustness_bars(row(), {"latency 2 x": row(ttft_mean_s=1.6), "noise": row(ttft_mean_s=1.7)})
    assert [bar.met for bar in bars] == [True, False]

    overload = {"ttft-cost": row(ttft_p99_s=9.1), "least-in-flight": row()}
    assert [bar.met for bar in overload_bars(overload)] == [False]
    assert list(overload_bars({})) == []


def test_the_simulator_has_bars_of_its_own():
    seconds = {"seed row, s": 3.0, "seed table of 3 seeds, s": 31.0, "share of router code": 0.39}

    assert [bar.met for bar in speed_bars(seconds)] == [True, False, True]


def test_the_page_has_the_bars_and_a_table_for_each_workload():
    found = {"high native": {"ttft-cost": row()}, "ladder": {"ttft-cost": row(**{"ttft_mean_s at 10": 0.3})}}
    text = as_markdown(found, [Bar("a", 1.5, 1.0, against="dynamo")], seeds=3)

    assert "| a | dynamo | 1.500 | ≤ 1.000 | **no** |" in text
    assert "| ttft-cost | 1.00 ± 0.10 | 0.50 | 3.00 | 9.00 | 20.00 | 54,000 | 0.820 ± 0.020 | 0.30 |" in text
    assert "## high native" in text
    assert "TTFT   1.000" in as_text("high native", "ttft-cost", row())
