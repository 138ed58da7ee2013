"""Time as a port: the core gets the time as an argument, adapters read it from a clock."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where an adapter reads the time."""

    def monotonic(self) -> float:
        """Seconds that never go backwards; only differences mean something."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch, for logs and for process start times."""
        ...


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told to: for tests and for virtual time."""

    now: float = 1000.0
    epoch: float = 1_700_000_000.0

    def monotonic(self) -> float:
        """The time it was set to."""
        return self.now

    def wall(self) -> float:
        """The same time on the calendar."""
        return self.epoch + self.now

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`."""
        self.now += seconds
