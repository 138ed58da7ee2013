"""The file of results."""

import json

import pytest

from bench.suite import results
from bench.suite.samples import Samples
from tests.bench.results import facts, samples


def whole(found: Samples | None = None, **other) -> dict:
    return results.assemble({**facts(), **other}, samples() if found is None else found)


def test_results_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "results" / "latest.json"
    results.save(path, whole())

    assert results.load(path) == json.loads(json.dumps(whole()))
    assert [file.name for file in path.parent.iterdir()] == ["latest.json"]


def test_no_file_is_no_results(tmp_path):
    assert results.load(tmp_path / "latest.json") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "delete it to begin anew"),
        ("[]", "not results of schema 1"),
        ('{"schema": 2}', "not results of schema 1"),
        ('{"schema": 1, "bars": []}', "without machine"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path, text, complaint):
    path = tmp_path / "latest.json"
    path.write_text(text)
    with pytest.raises(results.ResultsError, match=complaint):
        results.load(path)


@pytest.mark.parametrize(("key", "complaint"), [("unit", "a bar without unit"), ("met", "a bar without met")])
def test_a_bar_without_a_key_is_refused(key, complaint):
    found = whole()
    del found["bars"][0][key]
    with pytest.raises(results.ResultsError, match=complaint):
        results.check(found)


def test_a_verdict_that_is_no_verdict_is_refused():
    found = whole()
    found["bars"][0]["met"] = "yes"
    with pytest.raises(results.ResultsError, match="met is not true or false"):
        results.check(found)


def test_parts_that_were_not_measured_anew_stay():
    newer = Samples()
    newer.add("1kb", "epp", {"cpu_us": 70.0})
    merged = results.merge(whole(), whole(newer, measured="2026-12-01 12:00 UTC"))

    assert merged["samples"]["120kb"]["epp"]["cpu_us"] == [239, 241]
    assert merged["samples"]["1kb"] == {"epp": {"cpu_us": [70.0]}}
    assert merged["settings"]["measured in parts"] == ["2026-11-30 12:00 UTC", "2026-12-01 12:00 UTC"]
    assert {bar["name"] for bar in merged["bars"]} == {"1", "2"}


def test_a_whole_measurement_replaces_all_parts():
    older = whole(settings={"runs": 1, "measured in parts": ["one day", "another"]})
    assert results.merge(older, whole()) == whole()


def test_a_router_left_out_this_time_keeps_its_figures():
    versions = {**facts()["versions"], "peers": {"b": "2.0"}}
    newer = whole(Samples(), versions=versions, peers={}, skipped={"a": "left out"})
    merged = results.merge(whole(skipped={}), newer)

    assert merged["versions"]["peers"] == {"a": "1.0", "b": "2.0"}
    assert merged["skipped"] == {}
    assert merged["bars"][0]["peer_values"]["a cache_aware"] == 160.0


def test_figures_of_another_machine_are_not_mixed_in():
    other = {**facts()["machine"], "cores": 64}
    assert "120kb" not in results.merge(whole(machine=other), whole(Samples()))["samples"]


def test_a_first_measurement_is_taken_as_it_is():
    assert results.merge(None, whole()) == whole()


def test_chunk_delays_are_judged_by_the_python_that_ran_epp():
    found = Samples()
    found.add("sse512", "epp", {"chunk_delay_p99_us": 1, "errors": 0, "ttft_max_us": 1})
    older = results.assemble(facts((3, 11, 7)), found)
    assert {bar["name"]: bar["bar"] for bar in older["bars"]}["4a"] == 1.5
