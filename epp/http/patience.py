"""Deadlines that do not hold it against others that our own event loop stood still.

When a loop runs again after a pause (a machine was suspended, a container throttled, a process got no core),
all timers fire in its first turn, and a peer that answered in time would be called late: a connection is made
in several turns, a body that is larger than the kernel's buffers comes in several.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

__all__ = ["PatientTimer", "Timers", "patient_timeout"]

# A timer that fires later than this tells that the loop stood still: our longest steps are a tenth of it.
_LATE_S: Final = 0.1
# The most that a deadline is put off at a time: what has come is read in one turn, its sequel in a few.
_MOST_S: Final = 5.0


class Timers(Protocol):
    """The part of an event loop that deadlines need."""

    def time(self) -> float:
        """Seconds of the loop's clock."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        """Run `callback` in `delay` seconds."""
        ...

    def call_exception_handler(self, context: dict[str, Any], /) -> None:
        """Report an exception that nobody awaits."""
        ...


class PatientTimer:
    """Calls `callback` in `delay_s` seconds; if the loop is late for it, as much later, 5 s at most.

    A loop that is late again has stood still again, and the deadline is put off again. A time that is over
    already (negative) tells nothing of the loop: the call comes in the next turn.
    """

    __slots__ = ("_callback", "_due", "_handle", "_timers")

    def __init__(self, timers: Timers, delay_s: float, callback: Callable[[], object]) -> None:
        self._timers = timers
        self._callback = callback
        self._arm(timers.time(), max(0.0, delay_s))

    def cancel(self) -> None:
        """Do not call; without effect afterwards."""
        self._handle.cancel()

    def _arm(self, now: float, delay_s: float) -> None:
        self._due = now + delay_s
        self._handle = self._timers.call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        now = self._timers.time()
        late_s = now - self._due
        if late_s > _LATE_S:
            self._arm(now, min(late_s, _MOST_S))
        else:
            self._callback()


@asynccontextmanager
async def patient_timeout(limit_s: float | None) -> AsyncIterator[None]:
    """`asyncio.timeout` that waits like a `PatientTimer`; None: for ever.

    Raises:
        TimeoutError: what is within did not end in time, and was cancelled.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        if limit_s is None:
            yield
            return
        timer = PatientTimer(loop, limit_s, lambda: timeout.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()
