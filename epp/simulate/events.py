"""What goes wrong during a simulation."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Event", "EventKind"]


class EventKind(StrEnum):
    """Kinds of events."""

    DOWN = "down"  # the endpoint refuses connections, and what it was doing is lost
    UP = "up"  # it is back, a new process with empty tiers
    CPU_TIER_OFF = "cpu-tier-off"  # its CPU tier holds nothing from now on
    SCRAPES_FAIL = "scrapes-fail"  # it serves, but its metrics cannot be read
    SCRAPES_RECOVER = "scrapes-recover"


@dataclass(frozen=True, slots=True)
class Event:
    """One event at `at_s`, on the endpoint of that number."""

    at_s: float
    kind: EventKind
    endpoint: int = 0
