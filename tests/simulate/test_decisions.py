"""The decision log: every candidate's forecast, and the regret of the choice."""

import json

import pytest

from epp.simulate.decisions import DecisionLog, Regret, regret_of
from epp.simulate.fleet import Offload
from epp.simulate.policies import load_policy
from epp.simulate.report import regret_as_text
from epp.simulate.runner import simulate
from tests.simulate.kit import fleet, shared_prefix


def logged(policy, requests=60, **fields):
    lines = []
    log = DecisionLog(lines.append)
    outcome = simulate(
        fleet(Offload.NATIVE, **fields), load_policy(policy), shared_prefix(requests),
        seed=1, observer=log.observe, forecasts=log.forecast,
    )  # fmt: skip
    return [json.loads(line) for line in lines], log.regret, outcome


def test_every_decision_tells_what_each_endpoint_would_have_done():
    decisions, regret, outcome = logged("default")

    assert len(decisions) == regret.decisions == len(outcome.rows) == 60
    for decision in decisions:
        hits = decision["candidates"][0]["predicted_hit_tokens"]
        assert hits["gpu"] + hits["cpu"] <= 2_100
        forecasts = {c["endpoint"]: c["forecast_ttft_s"] for c in decision["candidates"]}
        assert len(forecasts) == 3
        wanted = forecasts[decision["picked"]] - min(forecasts.values())
        assert decision["regret_s"] == pytest.approx(wanted, abs=2e-6)


def test_forecasts_come_true_in_the_mean():
    """Later arrivals join batches, so single ones are off."""
    decisions, _, outcome = logged("default", requests=300)
    first_s = {str(row.number): row.ttft_s for row in outcome.rows}
    told = [
        (
            next(c["forecast_ttft_s"] for c in d["candidates"] if c["endpoint"] == d["picked"]),
            first_s[d["request"]],
        )
        for d in decisions
    ]

    assert sum(f for f, _ in told) == pytest.approx(sum(s for _, s in told), rel=0.15)


def test_choosing_at_random_is_regretted_more():
    _, random, _ = logged("random", requests=300)
    _, cost, _ = logged("ttft-cost", requests=300)

    assert cost.mean_s < 0.5 * random.mean_s
    assert cost.best_share > random.best_share


def test_logging_changes_nothing():
    plain = simulate(fleet(Offload.NATIVE), load_policy("ttft-cost"), shared_prefix(), seed=1)

    assert logged("ttft-cost")[2].rows == plain.rows


def test_regret_is_a_mean_a_percentile_and_a_share():
    assert regret_of([]) == Regret(0, 0.0, 0.0, 0.0)
    assert regret_of([0.0, 0.0, 0.0005, 1.0]) == Regret(4, 0.250125, pytest.approx(0.70015), 0.75)
    said = "4 decisions: the best endpoint in 75%; regret 0.250 s in the mean, 0.700 s at P90\n"
    assert regret_as_text(regret_of([0.0, 0.0, 0.0005, 1.0])) == said
