"""What a discovery source is."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from epp.endpoints.types import EndpointSpec

__all__ = ["Pause", "Sink", "Source"]

Pause = Callable[[float | None], Awaitable[bool]]
"""Waits so many seconds, None for ever; True when somebody cut it short to have a look at once."""


class Sink(Protocol):
    """Takes what a source finds."""

    def publish(self, specs: Sequence[EndpointSpec]) -> None:
        """The complete set, in place of all that was published before. The source works."""
        ...

    def fail(self, problem: str) -> None:
        """A look failed, and why, in one line. What was published last still holds."""
        ...


class Source(Protocol):
    """Knows which endpoints there are. `name` is for operators, and unique among those of a router."""

    name: str

    async def run(self, sink: Sink) -> None:
        """Look at once and then again and again, until cancelled.

        The sink hears of the first look, of every change, of every failure, and of the first look that works
        after one; it may hear more often than that. What cannot be found out is a failure, never an empty
        set. A source whose set cannot change returns.
        """
        ...
