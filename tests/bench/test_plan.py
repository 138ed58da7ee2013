"""Which sessions, steps and stacks a choice of rows means."""

import pytest

from bench.suite import plan


def names(rows, run=0, runs=5):
    return {
        session.name: [step.name for step in session.steps]
        for session in plan.sessions_for(frozenset(rows), run, runs)
    }


def test_without_a_choice_all_rows_are_measured():
    assert plan.rows_of(None) == set(plan.ROWS)
    assert plan.rows_of("1, 2b") == {"1", "2b"}


@pytest.mark.parametrize("only", ["12", "1,x", ",", ""])
def test_a_row_that_is_not_there_is_refused_by_name(only):
    with pytest.raises(ValueError, match="there are 1, 2, 2b"):
        plan.rows_of(only)


def test_a_row_brings_the_workloads_it_is_compared_with():
    assert names({"1"}) == {"standard": ["1kb"]}
    assert names({"2b"}) == names({"2"})
    assert names({"2"})["standard"][0] == "120kb"
    assert len(names({"2"})["standard"]) == 5
    assert names({"9"}) == {"standard": ["sse512"], "heavy": ["heavy"]}


def test_memory_is_taken_after_all_of_the_standard_workloads():
    found = names({"10"})
    assert found["standard"] == [step.name for step in plan.STANDARD]
    assert found["full"] == ["fill"]


def test_long_sessions_are_part_of_some_runs_only():
    assert "full" in names({"10"}, run=0)
    assert "full" not in names({"10"}, run=1)
    assert "growth" in names({"11"}, run=1)
    assert "growth" not in names({"11"}, run=2)
    assert "growth" in names({"11"}, run=0, runs=1)


def test_every_step_of_the_standard_session_serves_a_row():
    assert {step.name for step in plan.STANDARD} == set(plan.STEP_ROWS)
    assert set().union(*plan.STEP_ROWS.values()) | {"6", "7", "8", "10", "11"} == set(plan.ROWS)


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ("standard", {"direct", "epp", "epp-3.11", "nginx", "a cache_aware", "a round_robin"}),
        ("heavy", {"epp", "nginx", "a cache_aware"}),
        ("scrape-50ms", {"epp"}),
        ("growth", {"epp", "nginx", "a round_robin"}),
    ],
)
def test_stacks_take_part_where_they_are_compared(session, expected):
    (chosen,) = [each for each in plan.SESSIONS if each.name == session]
    stacks = {
        "direct": "",
        "epp": "",
        "epp-3.11": "",
        "nginx": "",
        "a cache_aware": "cache_aware",
        "a round_robin": "round_robin",
    }
    found = {
        name for name, mode in stacks.items() if plan.takes_part(chosen, name, mode, peers=("a round_robin",))
    }
    assert found == expected


def test_without_a_proxy_only_latency_is_measured():
    taken = [step.name for step in plan.STANDARD if plan.step_takes_part(step, "direct", "")]
    assert taken == ["rate200"]


def test_routers_in_turn_are_measured_on_the_first_rows_only():
    taken = [
        step.name for step in plan.STANDARD if plan.step_takes_part(step, "a round_robin", "round_robin")
    ]
    assert taken == ["1kb", "120kb", "sse512"]


def test_a_whole_run_is_estimated_below_twenty_five_minutes():
    stacks = {"direct": "", "epp": "", "nginx": "", "epp-3.11": ""}
    for name in ("vllm-router", "sglang-router", "smg"):
        stacks |= {f"{name} {mode}": mode for mode in ("cache_aware", "round_robin")}
    peers = ("sglang-router cache_aware", "smg cache_aware")
    total = sum(
        session.estimate_s(name, mode)
        for run in range(5)
        for session in plan.sessions_for(frozenset(plan.ROWS), run, 5)
        for name, mode in stacks.items()
        if plan.takes_part(session, name, mode, peers=peers)
    )
    assert total < 24.5 * 60
