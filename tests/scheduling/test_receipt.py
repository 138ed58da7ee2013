"""Receipts: the JSON form and the header line."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.handlers.single_profile import SingleProfileHandler
from epp.scheduling.pickers.max_score import MaxScorePicker
from epp.scheduling.profile import SchedulingProfile
from epp.scheduling.receipt import Excluded, PredictedHit, header_value, render
from epp.scheduling.scheduler import Scheduler
from tests.scheduling.builders import DropFilter, FixedScorer, cycle, endpoint, fleet


def decide(pool, *scorers, filters=()):
    made = SchedulingProfile("default", filters, scorers, MaxScorePicker("p", random.Random(1)))
    return Scheduler([made], SingleProfileHandler("h")).schedule(cycle(pool))


def two_scorers(pool=None, **kwargs):
    pool = pool or fleet(3, waiting=[0.0, 1.0, None])
    scorers = (FixedScorer("queue", [0.5, 1.0, 0.0]), 2), (FixedScorer("gpu-prefix", [1.0, 0.25, 0.0]), 1)
    return decide(pool, *scorers, **kwargs)


def test_json_form_holds_every_number_of_the_decision():
    decision = two_scorers()
    picked = decision.cycle.candidates[0]

    receipt = render(decision, picked, {0: PredictedHit(gpu_tokens=512, cpu_tokens=1024)})

    assert receipt == {
        "picked": "10.0.0.1:8000",
        "profile": "default",
        "requested_model": "m",
        "model": "m",
        "adapter": "",
        "prompt_tokens": 1000,
        "weight_sum": 3,
        "candidates": [
            {
                "endpoint": "10.0.0.1:8000",
                "total": 2.0,
                "fresh": True,
                "predicted_hit_tokens": {"gpu": 512, "cpu": 1024},
                "scores": {
                    "queue": {"score": 0.5, "weight": 2, "share": 0.5},
                    "gpu-prefix": {"score": 1.0, "weight": 1, "share": 0.5},
                },
            },
            {
                "endpoint": "10.0.0.2:8000",
                "total": 2.25,
                "fresh": True,
                "predicted_hit_tokens": {"gpu": None, "cpu": None},
                "scores": {
                    "queue": {"score": 1.0, "weight": 2, "share": 0.888889},
                    "gpu-prefix": {"score": 0.25, "weight": 1, "share": 0.111111},
                },
            },
            {
                "endpoint": "10.0.0.3:8000",
                "total": 0.0,
                "fresh": False,
                "predicted_hit_tokens": {"gpu": None, "cpu": None},
                "scores": {
                    "queue": {"score": 0.0, "weight": 2, "share": 0.0},
                    "gpu-prefix": {"score": 0.0, "weight": 1, "share": 0.0},
                },
            },
        ],
        "excluded": [],
    }
    assert json.loads(json.dumps(receipt)) == receipt


def test_picked_comes_first_then_by_total():
    decision = decide(fleet(4), (FixedScorer("s", [0.1, 0.9, 0.5, 0.3]), 1))

    receipt = render(decision, decision.cycle.candidates[3])

    assert [c["total"] for c in receipt["candidates"]] == [0.3, 0.9, 0.5, 0.1]


def test_excluded_endpoints_say_why():
    decision = two_scorers(filters=(DropFilter("by-label", [2]),))

    receipt = render(decision, decision.cycle.candidates[0], excluded=[Excluded("10.0.0.9:8000", "ejected")])

    assert receipt["excluded"] == [
        {"endpoint": "10.0.0.9:8000", "reason": "ejected"},
        {"endpoint": "10.0.0.3:8000", "reason": "filter by-label"},
    ]
    assert len(receipt["candidates"]) == 2


def test_header_holds_the_decision_in_one_line():
    decision = two_scorers()

    line = header_value(decision, decision.cycle.candidates[0], {0: PredictedHit(512, 1024)})

    assert line == (
        "10.0.0.1:8000 total=2.000/3 hit=gpu:512,cpu:1024 candidates=3 next=10.0.0.2:8000=2.250 "
        "queue=0.500*2 gpu-prefix=1.000*1"
    )


def test_header_leaves_out_what_there_is_not():
    decision = decide(fleet(1))

    assert header_value(decision, decision.cycle.candidates[0]) == "10.0.0.1:8000 total=0.000/0 candidates=1"


def test_header_of_an_endpoint_that_was_no_candidate_has_no_numbers_of_it():
    decision = decide(fleet(2), (FixedScorer("s", [0.5, 0.25]), 1))

    assert header_value(decision, endpoint(7)) == "10.0.0.8:8000 candidates=2 next=10.0.0.1:8000=0.500"


@pytest.mark.parametrize(
    "hit, word", [(PredictedHit(gpu_tokens=0), "hit=gpu:0"), (PredictedHit(cpu_tokens=64), "hit=cpu:64")]
)
def test_header_names_only_tiers_that_have_a_view(hit, word):
    decision = decide(fleet(1))

    assert header_value(decision, decision.cycle.candidates[0], {0: hit}).split()[2] == word


def test_header_counts_the_excluded():
    decision = two_scorers(filters=(DropFilter("by-label", [2]),))

    line = header_value(
        decision, decision.cycle.candidates[0], excluded=[Excluded("10.0.0.9:8000", "ejected")]
    )

    assert "candidates=2 excluded=2 next=" in line


def test_header_is_ascii_without_separators_inside_names():
    pool = (endpoint(0, host="fd00::1"),)
    decision = decide(pool, (FixedScorer("höhe; a=b\r\nx: y", [1.0]), 1))

    line = header_value(decision, pool[0])

    assert line == "[fd00::1]:8000 total=1.000/1 candidates=1 h_he__a_b__x:_y=1.000*1"


def test_header_drops_whole_words_from_the_end_and_says_so():
    scorers = [(FixedScorer(f"scorer-{'x' * 90}-{n}", [1.0]), 1) for n in range(20)]
    decision = decide(fleet(1), *scorers)

    line = header_value(decision, decision.cycle.candidates[0])

    assert len(line) <= 1024
    assert line.startswith("10.0.0.1:8000 total=20.000/20 candidates=1 scorer-xxx")
    assert line.endswith("-8=1.000*1 ...")


def test_header_cuts_an_endless_name():
    pool = (endpoint(0, host="h" * 2000),)

    assert header_value(decide(pool), pool[0]) == "h" * 1024


@given(st.lists(st.text(max_size=200), max_size=30))
def test_header_is_short_printable_ascii_for_any_names(names):
    decision = decide(fleet(2), *((FixedScorer(name, [1.0, 0.5]), 1) for name in names))

    line = header_value(decision, decision.cycle.candidates[0])

    assert len(line.encode("ascii")) <= 1024
    assert line.isprintable()
