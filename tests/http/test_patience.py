"""A deadline is put off by as long as the loop stood still past it: nobody is blamed for what it did not see."""

import asyncio
import selectors

import pytest

from epp.http.patience import PatientTimer, patient_timeout
from tests.http.fakes import FakeTimers


class Calls(list):
    def __call__(self):
        self.append("called")


@pytest.fixture
def timers():
    return FakeTimers()


def test_a_timer_calls_when_its_time_has_come(timers):
    calls = Calls()
    PatientTimer(timers, 10.0, calls)
    timers.advance(9.99)
    before = list(calls)
    timers.advance(0.01)

    assert (before, calls) == ([], ["called"])


def test_a_timer_that_is_late_by_a_step_of_the_loop_calls_at_once(timers):
    calls = Calls()
    PatientTimer(timers, 10.0, calls)
    timers.stand_still(10.09)

    assert calls == ["called"]


@pytest.mark.parametrize(
    ("standstills_s", "put_off_s"),
    [
        pytest.param([13.0], 3.0, id="as long as the loop stood still"),
        pytest.param([3600.0], 5.0, id="five seconds after a suspended machine"),
        pytest.param([12.0, 4.0], 2.0, id="again after another standstill"),
    ],
)
def test_a_timer_that_the_loop_is_late_for_is_put_off(timers, standstills_s, put_off_s):
    calls = Calls()
    PatientTimer(timers, 10.0, calls)
    for seconds in standstills_s:
        timers.stand_still(seconds)
    timers.advance(put_off_s - 0.01)
    before = list(calls)
    timers.advance(0.02)

    assert (before, calls) == ([], ["called"])


def test_a_time_that_is_over_when_it_is_set_is_no_standstill(timers):
    calls = Calls()
    PatientTimer(timers, -3.0, calls)
    timers.stand_still(0.0)

    assert calls == ["called"]


def test_a_cancelled_timer_does_not_call_before_and_after_it_was_put_off(timers):
    calls = Calls()
    PatientTimer(timers, 10.0, calls).cancel()
    late = PatientTimer(timers, 10.0, calls)
    timers.stand_still(12.0)
    late.cancel()
    timers.advance(100.0)

    assert calls == []


class StoppedClockLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves when told to."""

    def __init__(self):
        super().__init__(selectors.SelectSelector())
        self.now = 1000.0

    def time(self):
        return self.now


@pytest.fixture
def stopped_clock_loop():
    with asyncio.Runner(loop_factory=StoppedClockLoop) as runner:
        yield runner


async def some_turns():
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_needs_some_turns_after_a_standstill_is_in_time(stopped_clock_loop):
    async def scene():
        async with patient_timeout(10.0):
            asyncio.get_running_loop().now += 60.0
            await some_turns()
        return "in time"

    assert stopped_clock_loop.run(scene()) == "in time"


@pytest.mark.parametrize("standstills", [[10.0], [60.0, 5.0], [11.0, 1.0]])
def test_what_does_not_end_after_a_standstill_is_cancelled(stopped_clock_loop, standstills):
    async def scene():
        async with patient_timeout(10.0):
            for seconds in standstills:
                asyncio.get_running_loop().now += seconds
                await some_turns()

    with pytest.raises(TimeoutError):
        stopped_clock_loop.run(scene())


def test_without_a_limit_nothing_is_cancelled(stopped_clock_loop):
    async def scene():
        async with patient_timeout(None):
            asyncio.get_running_loop().now += 1e9
            await some_turns()
        return "in time"

    assert stopped_clock_loop.run(scene()) == "in time"
