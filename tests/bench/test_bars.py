"""What the bars are, and when they are met."""

import pytest

from bench.suite.bars import Context, bars_of, rounded
from bench.suite.samples import Samples
from tests.bench.results import PEERS, samples


def bars(found: Samples, *, newer_python=True) -> dict:
    return {bar.name: bar.as_dict() for bar in bars_of(Context(found, PEERS, newer_python))}


def test_nothing_measured_is_no_bar():
    assert bars(Samples()) == {}


def test_a_compared_bar_is_the_strictest_of_its_limits():
    found = bars(samples())

    assert found["1"]["bar"] == 100.0  # five times nginx's 20; three quarters of 160 would be 120
    assert found["1"]["value"] == 90.0
    assert found["1"]["met"] is True
    assert found["2"]["bar"] == 315.0  # 4.5 times 70; three quarters of 480 would be 360


def test_the_best_peer_is_one_that_looks_at_prefixes():
    limits = bars(samples())["1"]["limits"]
    assert limits[1] == {"against": "best cache-aware peer", "times": 0.75, "at_most": 120.0}


def test_peer_values_name_nginx_and_every_peer():
    assert bars(samples())["1"]["peer_values"] == {
        "nginx": 20.0,
        "a cache_aware": 160.0,
        "b cache_aware": 400.0,
        "b round_robin": 70.0,
    }


def test_epp_on_another_python_stands_beside():
    found = samples()
    found.add("1kb", "epp-3.11", {"cpu_us": 101.0})
    assert bars(found)["1"]["peer_values"]["epp-3.11"] == 101.0


def test_a_value_above_the_bar_is_not_met():
    found = samples()
    found.table["1kb"]["epp"]["cpu_us"] = [100.0, 101.0, 102.0]
    assert bars(found)["1"]["met"] is False


@pytest.mark.parametrize("missing", ["nginx", "a cache_aware"])
def test_a_bar_without_what_it_stands_against_is_not_met(missing):
    found = samples()
    for stack in {missing, "b cache_aware"} if missing != "nginx" else {missing}:
        del found.table["1kb"][stack]
    assert bars(found)["1"]["bar"] == "not measured"
    assert bars(found)["1"]["met"] is False


def test_row_2b_is_the_dearest_script_and_stands_against_row_2():
    found = samples()
    for name, cost in (("120kb-chinese", 300.0), ("120kb-vietnamese-escaped", 470.0)):
        found.add(name, "epp", {"cpu_us": cost})

    bar = bars(found)["2b"]
    assert (bar["value"], bar["bar"], bar["met"]) == (470.0, 480.0, True)
    assert bar["parts"]["120kb-chinese"] == 300.0


@pytest.mark.parametrize(("newer_python", "most"), [(True, 1.0), (False, 1.5)])
def test_chunk_delay_is_allowed_more_on_older_pythons(newer_python, most):
    found = Samples()
    found.add("sse512", "epp", {"chunk_delay_p99_us": 1200, "errors": 0, "ttft_max_us": 149_000})

    bar = bars(found, newer_python=newer_python)["4a"]
    assert (bar["bar"], bar["value"], bar["met"]) == (most, 1.2, not newer_python)


def test_errors_of_all_runs_count():
    found = Samples()
    for errors in (0, 2, 0):
        found.add("sse512", "epp", {"chunk_delay_p99_us": 1, "errors": errors, "ttft_max_us": 1})
    assert (bars(found)["4b"]["value"], bars(found)["4b"]["met"]) == (2.0, False)


def test_latency_is_what_is_above_direct_in_the_same_run():
    found = Samples()
    for direct, epp in ((100, 500), (300, 600), (100, 450)):
        found.add("rate200", "direct", {"latency_p50_us": direct, "latency_p99_us": direct})
        found.add("rate200", "epp", {"latency_p50_us": epp, "latency_p99_us": epp})
    assert bars(found)["5a"]["value"] == 0.35


def test_a_decision_is_judged_by_the_dearer_number_of_endpoints():
    found = Samples()
    found.add(
        "decision",
        "epp",
        {"decision_us_64": 120, "decision_us_512": 260, "longest_us_64": 900, "longest_us_512": 700},
    )

    found_bars = bars(found)
    assert (found_bars["6a"]["value"], found_bars["6a"]["met"]) == (260.0, False)
    assert (found_bars["6d"]["value"], found_bars["6d"]["met"]) == (0.9, True)
    assert set(found_bars["6a"]["peer_values"].values()) == {None}
    assert "6b" not in found_bars


def test_scraping_is_judged_at_the_full_rate():
    found = Samples()
    found.add("scrape-50ms", "epp", {"cores": 0.48, "pages_s": 1600.0})
    found.add("scrape-idle", "epp", {"cores": 0.05, "pages_s": 200.0})
    assert (bars(found)["8a"]["value"], bars(found)["8a"]["met"]) == (0.6, False)
    assert bars(found)["8a"]["parts"] == {"pages a second": 1600.0}
    assert (bars(found)["8b"]["value"], bars(found)["8b"]["met"]) == (0.05, True)


def test_the_heavy_case_is_allowed_its_chunks_and_four_ms():
    found = Samples()
    found.add("sse512", "epp", {"cpu_us_chunk": 36.0})
    found.add("heavy", "epp", {"cpu_us": 39_000.0})
    assert (bars(found)["9"]["bar"], bars(found)["9"]["value"]) == (40.0, 39.0)


def test_a_cliff_between_two_sizes_shows():
    found = Samples()
    for streams, cost in ((1, 50), (8, 45), (64, 40), (512, 36), (2000, 120)):
        found.add(f"streams-{streams}", "epp", {"cpu_us_chunk": cost})
    bar = bars(found)["11c"]
    assert bar["value"] > 0.8
    assert bar["met"] is False
    assert bar["parts"]["2,000"] == 120.0


def test_numbers_have_four_digits():
    assert rounded(123.456) == 123.5
    assert rounded(None) is None
