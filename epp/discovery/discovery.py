"""Runs sources and keeps one pool of what they find."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from epp.clock import Clock
from epp.discovery.merging import merge
from epp.discovery.source import Pause, Source
from epp.endpoints.types import EndpointSpec

__all__ = ["Discovery", "FailureLog", "SourceReport"]

_RESTART_S: Final = 5.0  # after a source has died of an error of its own


class FailureLog(Protocol):
    """Says that something keeps failing without saying it each time."""

    def failed(self, detail: str, now: float) -> None:
        """One more failure, at `now` in monotonic seconds."""
        ...

    def worked(self) -> None:
        """It did not fail."""
        ...


@dataclass(frozen=True, slots=True)
class SourceReport:
    """How a source is doing.

    Attributes:
        name: of the source.
        endpoints: how many it knows; None: it has not found out yet.
        problem: why its last look failed; None: it did not.
        failures: looks that failed since the start.
    """

    name: str
    endpoints: int | None
    problem: str | None
    failures: int


class _Feed:
    """A sink, and the last good set of its source."""

    def __init__(self, source: Source, changed: Callable[[], None], log: FailureLog, clock: Clock) -> None:
        self.source = source
        self.specs: tuple[EndpointSpec, ...] | None = None
        self.problem: str | None = None
        self.failures = 0
        self.heard = asyncio.Event()
        self._changed = changed
        self._log = log
        self._clock = clock

    def publish(self, specs: Sequence[EndpointSpec]) -> None:
        """Take the complete set."""
        self.problem = None
        self._log.worked()
        self.specs = tuple(specs)
        self._changed()
        self.heard.set()

    def fail(self, problem: str) -> None:
        """Keep what there is."""
        self.problem = problem
        self.failures += 1
        self._log.failed(problem, self._clock.monotonic())
        self.heard.set()

    def report(self) -> SourceReport:
        """How the source is doing."""
        known = None if self.specs is None else len(self.specs)
        return SourceReport(self.source.name, known, self.problem, self.failures)


class Discovery:
    """`on_endpoints` gets the whole pool whenever a source publishes, `on_conflict` each contradiction once."""

    def __init__(
        self,
        sources: Sequence[Source],
        on_endpoints: Callable[[tuple[EndpointSpec, ...]], None],
        *,
        clock: Clock,
        pause: Pause,
        failure_log: Callable[[str], FailureLog],
        on_conflict: Callable[[str], None],
    ) -> None:
        """`failure_log` makes the log of one source, by its name; `pause` is for one that has died."""
        self._on_endpoints = on_endpoints
        self._on_conflict = on_conflict
        self._pause = pause
        self._feeds = [_Feed(source, self._merge, failure_log(source.name), clock) for source in sources]
        self._tasks: list[asyncio.Task[None]] = []
        self._conflicts: tuple[str, ...] = ()

    async def start(self, wait_s: float) -> None:
        """Begin to look; returns when every source has told of its first look, at the latest after `wait_s`."""
        self._tasks = [
            asyncio.create_task(self._run(feed), name=f"discovery {feed.source.name}") for feed in self._feeds
        ]
        first_looks = [asyncio.create_task(feed.heard.wait()) for feed in self._feeds]
        if first_looks:
            _, late = await asyncio.wait(first_looks, timeout=wait_s)
            for task in late:
                task.cancel()

    async def stop(self) -> None:
        """End every source."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reports(self) -> tuple[SourceReport, ...]:
        """How each source is doing, in their order."""
        return tuple(feed.report() for feed in self._feeds)

    async def _run(self, feed: _Feed) -> None:
        while True:
            try:
                await feed.source.run(feed)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other sources and its set go on
                feed.fail(f"{type(error).__name__}: {error}")
                await self._pause(_RESTART_S)
            else:
                return

    def _merge(self) -> None:
        merged = merge((feed.source.name, feed.specs) for feed in self._feeds if feed.specs is not None)
        for conflict in merged.conflicts:
            if conflict not in self._conflicts:
                self._on_conflict(conflict)
        self._conflicts = merged.conflicts
        self._on_endpoints(merged.specs)
