"""Runs sources and keeps one pool of what they find."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from epp.clock import Clock
from epp.discovery.merging import merge
from epp.discovery.source import Pause, Source
from epp.endpoints.types import EndpointSpec

__all__ = ["Discovery", "FailureLog", "SourceError", "SourceReport"]

_RESTART_S: Final = 5.0  # after a source has died of an error of its own


class FailureLog(Protocol):
    """Says that something keeps failing without saying it each time."""

    def failed(self, detail: str, now: float) -> None:
        """One more failure, at `now` in monotonic seconds."""
        ...

    def worked(self) -> None:
        """It did not fail."""
        ...


class SourceError(Exception):
    """A source that has found nothing; says why, in one line."""


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
    """Keeps the pool of all that its sources found last."""

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
        """`on_endpoints` hears of the whole pool at each publication, `on_conflict` of each contradiction.

        `failure_log` makes the log of one source, by its name; `pause` is for a source that has died.
        """
        self._on_endpoints = on_endpoints
        self._on_conflict = on_conflict
        self._pause = pause
        self._new_feed = partial(_Feed, changed=self._merge, clock=clock)
        self._failure_log = failure_log
        self._feeds = [self._feed(source) for source in sources]
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._conflicts: tuple[str, ...] = ()

    async def start(self, wait_s: float) -> None:
        """Begin to look; returns when each source has told of its first look, or after `wait_s`."""
        await self._begin(self._feeds, wait_s)

    async def replace(self, sources: Sequence[Source], wait_s: float) -> None:
        """Look at `sources` instead. Those whose name stays go on; new ones are heard before old ones go.

        Raises:
            SourceError: a new one found nothing in `wait_s`; everything stays as it was.
        """
        running = {feed.source.name: feed for feed in self._feeds}
        feeds = [running.get(source.name) or self._feed(source) for source in sources]
        new = [feed for feed in feeds if feed not in self._feeds]
        await self._begin(new, wait_s)
        for feed in new:
            if feed.specs is None:
                await self._end(other.source.name for other in new)
                raise SourceError(f"{feed.source.name}: {feed.problem or 'has not been read in time'}")
        gone = running.keys() - {feed.source.name for feed in feeds}
        self._feeds = feeds
        await self._end(gone)
        self._merge()

    async def stop(self) -> None:
        """End every source."""
        await self._end(list(self._tasks))

    def reports(self) -> tuple[SourceReport, ...]:
        """How each source is doing, in their order."""
        return tuple(feed.report() for feed in self._feeds)

    def _feed(self, source: Source) -> _Feed:
        return self._new_feed(source, log=self._failure_log(source.name))

    async def _begin(self, feeds: Sequence[_Feed], wait_s: float) -> None:
        for feed in feeds:
            name = feed.source.name
            self._tasks[name] = asyncio.create_task(self._run(feed), name=f"discovery {name}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                for feed in feeds:
                    await feed.heard.wait()

    async def _end(self, names: Iterable[str]) -> None:
        ending = [self._tasks.pop(name) for name in names]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

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
