"""The live check: what it compares, what it calls a miss, and a short run of the real thing."""

import json

import pytest

from bench import live_check
from bench.live_check import Figures, Options, Row, bodies_of, misses, ranking, table
from epp.engine import StepLoad
from epp.simulate.prompts import Segment
from epp.simulate.workload import SimRequest


def row(policy, simulated, live):
    """A policy with these mean TTFT in seconds."""
    return Row(policy, Figures(simulated, 0.2, 1.0, 10), Figures(live, 0.3, 1.1, 10), 0.0015)


ROWS = [row("a", 0.100, 0.110), row("b", 0.200, 0.190), row("c", 0.400, 0.479)]


def test_the_same_ranking_within_the_tolerance_is_no_miss():
    assert misses(ROWS, 0.2) == []
    assert ranking(ROWS, "live") == ("a", "b", "c")


def test_a_ttft_beyond_the_tolerance_is_a_miss_slower_or_faster():
    assert misses([*ROWS, row("d", 1.0, 1.21), row("e", 2.0, 1.5)], 0.2) == [
        "d: mean TTFT is +21% of the simulated, 20% is allowed",
        "e: mean TTFT is -25% of the simulated, 20% is allowed",
    ]


def test_another_ranking_is_a_miss():
    assert misses([row("a", 0.20, 0.21), row("b", 0.21, 0.20)], 0.2) == [
        "ranking: a < b simulated, b < a live"
    ]


def test_the_table_has_both_sides():
    assert table(ROWS[:1]).splitlines() == [
        "milliseconds            TTFT mean           TTFT P90          end to end       TTFT   sent",
        "                  simulated   live  simulated   live  simulated   live   error   late",
        "a                       100    110        200    300       1000   1100    +10%    1.5",
        "best first, simulated: a",
        "best first, live:      a",
    ]


def test_the_simulated_fleet_is_as_much_faster_as_the_servers():
    modelled, fleet = Options(8, 60, 1, ("random",)).fleet(), Options(8, 60, 4, ("random",)).fleet()
    load, size = StepLoad(8_192, 1e7, 5, 10_000), 1 << 30

    assert fleet.latency.step_s(load) == pytest.approx(modelled.latency.step_s(load) / 4)
    assert fleet.latency.load_s(size) == pytest.approx(modelled.latency.load_s(size) / 4)
    assert (fleet.api_s, modelled.api_s, fleet.scrape_s) == (0.0075, 0.03, 0.1)
    assert (Options(8, 60, 1, ()).workload().total, Options(8, 60, 4, ()).workload().total) == (229, 923)


def test_prompts_begin_alike_as_far_as_their_segments_do():
    shared = Segment(7, 5)
    requests = [
        (0.0, SimRequest(0, (shared, Segment(8, 8)), 3)),
        (0.1, SimRequest(1, (shared, Segment(9, 8)), 3)),
        (0.2, SimRequest(2, (shared, Segment(8, 8)), 3)),
    ]
    first, second, third = (json.loads(body) for body in bodies_of(requests))

    assert first == third
    assert (len(first["prompt"]), first["prompt"][:5]) == (8, second["prompt"][:5])
    assert first["prompt"][5:] != second["prompt"][5:]
    assert (first["max_tokens"], first["ignore_eos"], first["stream"]) == (3, True, True)


def test_a_short_run_compares_real_processes_with_the_simulator(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live_check, "hurry", lambda: None)  # the other tests want their turn
    figures = tmp_path / "figures.json"
    argv = ["--engines", "2", "--seconds", "2", "--jobs", "1", "--json", str(figures)]

    status = live_check.main([*argv, "--policies", "least-in-flight", "--tolerance", "1000"])

    shown = json.loads(figures.read_text())
    [found] = shown["rows"]
    assert (status, shown["misses"]) == (0, [])
    assert found["simulated"]["requests"] == found["live"]["requests"] == 6
    # A modelled prefill of 16,000 tokens takes a second, a quarter of that at this scale.
    assert found["live"]["ttft_mean_s"] > 0.1
    assert capsys.readouterr().out.endswith("within 100000%, same ranking\n")


def test_a_miss_is_the_exit_status(capsys, monkeypatch):
    monkeypatch.setattr(live_check, "hurry", lambda: None)

    async def measure(options, expected):
        return [row(policy, figures.ttft_mean_s, 9.0) for policy, figures in expected.items()]

    monkeypatch.setattr(live_check, "measure", measure)

    assert live_check.main(["--engines", "1", "--seconds", "2", "--jobs", "1", "--policies", "random"]) == 1
    assert "MISS random: mean TTFT is +" in capsys.readouterr().out
