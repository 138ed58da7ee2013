"""A seeded run of a quarter of a minute through each relay, denser than `make chaos`: every kind of event comes up.

Timing decides which request meets which event, so a run is not the same twice; the rules hold of every one.
"""

import logging

import pytest
import uvloop

from tests.chaos.events import Disturbance
from tests.chaos.load import Outcome, _is_whole
from tests.chaos.run import Plan, _is_allowed, run


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def logs_as_before():
    """The router sets up logging for its process."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.e2e
@pytest.mark.parametrize(("lane", "seed"), [("fast", 11), ("asgi", 12)])
async def test_mischief_fails_no_request_but_those_it_cuts_and_leaves_nothing(lane, seed, logs_as_before):
    report = await run(Plan(seed, mischief_s=8.0, calm_s=6.5, clients=10, lane=lane))

    assert report.faults == [], "\n".join(report.lines())
    assert len(report.events) == 23
    assert sum(outcome.good for outcome in report.outcomes) > 200
    assert len(report.recoveries_s) >= 2


A, B = "127.0.0.11:8000", "127.0.0.12:8000"


@pytest.mark.parametrize(
    ("outcome", "allowed"),
    [
        (Outcome(10.0, 10.1, True, 200, A, whole=True), True),
        (Outcome(10.0, 10.1, True, 200, A, whole=False), True),
        (Outcome(10.0, 10.1, True, 200, B, whole=False), False),
        (Outcome(30.0, 30.1, True, 200, A, whole=False), False),
        (Outcome(10.0, 12.1, False, 504, "", whole=True), True),
        (Outcome(10.0, 10.5, False, 504, "", whole=True), False),
        (Outcome(30.0, 32.1, False, 504, "", whole=True), False),
        (Outcome(10.0, 10.1, False, 503, A, whole=True), False),
        (Outcome(10.0, 10.1, False, 502, "", whole=True), False),
        (Outcome(10.0, 10.1, False, 0, "", whole=False), False),
    ],
    ids=[
        "good", "cut with its server", "cut with another", "cut long after", "hung", "504 too early",
        "504 long after", "503", "502", "no answer",
    ],
)  # fmt: skip
def test_what_may_happen_to_a_request_is_narrow(outcome, allowed):
    log = [
        Disturbance("kill", A, 9.0, 11.0),
        Disturbance("hang", B, 9.0, 11.0),
        Disturbance("busy", A, 9.0, 40.0),
    ]

    assert _is_allowed(outcome, log) is allowed


@pytest.mark.parametrize(
    ("fields", "rest", "stream", "whole"),
    [
        ({b"content-length": b"2"}, b"{}", False, True),
        ({b"content-length": b"3"}, b"{}", False, False),
        ({}, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", True, True),
        ({}, b"9\r\ndata: 1\n\n\r\n0\r\n\r\n", True, False),
        ({}, b"e\r\ndata: [DONE]\n\n\r\n", True, False),
    ],
    ids=["json", "short json", "stream", "stream that ends cleanly too early", "stream without its end"],
)
def test_an_answer_is_whole_only_with_its_proper_end(fields, rest, stream, whole):
    assert _is_whole(fields, rest, stream=stream) is whole
