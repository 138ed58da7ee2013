"""Who is let in."""

from dataclasses import dataclass, field

import pytest

from epp.endpoints.ledger import Ledger
from epp.errors import SaturatedError
from epp.flow.admission import Admission
from tests.scheduling.builders import fleet

POOL = fleet(2)


@dataclass
class Scripted:
    """A detector that says what it is told."""

    answer: float | None
    name: str = "scripted"
    type: str = "scripted-detector"
    asked: list = field(default_factory=list)

    def saturation(self, endpoints, ledger, now):
        self.asked.append((endpoints, now))
        return self.answer


def admits(priority, saturation):
    detector = Scripted(saturation)
    try:
        Admission(detector).check(priority, POOL, Ledger(), 5.0)
    except SaturatedError:
        return False, detector.asked
    return True, detector.asked


@pytest.mark.parametrize("saturation", [0.0, 0.99, None])
def test_a_negative_priority_is_let_in_while_there_is_room_or_nothing_is_known(saturation):
    assert admits(-1, saturation) == (True, [(POOL, 5.0)])


@pytest.mark.parametrize("saturation", [1.0, 3.5])
def test_a_negative_priority_is_shed_when_saturated(saturation):
    assert admits(-1, saturation) == (False, [(POOL, 5.0)])


@pytest.mark.parametrize("priority", [0, 1, 100])
def test_any_other_priority_is_let_in_without_a_question(priority):
    assert admits(priority, 9.0) == (True, [])


def test_what_is_shed_gets_429_and_a_time_to_come_back():
    with pytest.raises(SaturatedError) as caught:
        Admission(Scripted(1.0)).check(-5, POOL, Ledger(), 0.0)

    error = caught.value
    assert (error.status, error.code, error.reason, error.retry_after_s) == (
        429,
        "saturated",
        "rejected-saturated",
        1,
    )
    assert error.message == (
        "the endpoints are saturated, and requests of priority -5 wait for room; try again"
    )


@pytest.mark.parametrize(
    "headers, priority",
    [
        ({}, 0),
        ({"x-llm-d-inference-objective": "batch"}, -1),
        ({"x-gateway-inference-objective": "chat"}, 10),
        ({"x-llm-d-inference-objective": "chat", "x-gateway-inference-objective": "batch"}, 10),
        ({"x-llm-d-inference-objective": "unknown"}, 0),
        ({"x-llm-d-inference-objective": ""}, 0),
        ({"x-llm-d-inference-objective": "Batch"}, 0),
    ],
)
def test_the_priority_is_that_of_the_objective_which_the_request_names(headers, priority):
    assert Admission(Scripted(0.0), {"batch": -1, "chat": 10}).priority(headers) == priority


def test_without_objectives_every_priority_is_0():
    assert Admission(Scripted(0.0)).priority({"x-llm-d-inference-objective": "batch"}) == 0
