"""Sinks that remember, pauses that a test ends, and resolvers that tell what it wants."""

import asyncio
import contextlib

from epp.discovery.resolver import Answer, LookupFailedError, Record


class Recorder:
    """A sink: what it heard, in order, and what holds."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []
        self.specs = None
        self.problem = None
        self._news = asyncio.Event()

    def publish(self, specs) -> None:
        self.specs, self.problem = tuple(specs), None
        self._hear("publish", addresses(specs))

    def fail(self, problem) -> None:
        self.problem = problem
        self._hear("fail", problem)

    def _hear(self, kind, what) -> None:
        self.heard.append((kind, what))
        self._news.set()


class Pauses:
    """A pause that lasts until the test lets the loop go on; `waited` are the seconds it was asked for."""

    def __init__(self) -> None:
        self.waited: list[float | None] = []
        self._go = asyncio.Queue()
        self._arrived = asyncio.Event()

    async def __call__(self, seconds):
        self.waited.append(seconds)
        self._arrived.set()
        return await self._go.get()

    async def next(self, *, rung: bool = False) -> None:
        """Let the loop have another look; returns when it has had it."""
        self._arrived.clear()
        self._go.put_nowait(rung)
        await self.reached()

    async def reached(self) -> None:
        """Wait until the loop is in its pause."""
        async with asyncio.timeout(10):
            await self._arrived.wait()


@contextlib.asynccontextmanager
async def running(source, pauses, *, ends=False):
    """A source that runs, after its first look; yields what it told."""
    recorder = Recorder()
    task = asyncio.create_task(source.run(recorder))
    try:
        async with asyncio.timeout(10):
            await (task if ends else pauses.reached())
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def addresses(specs):
    return [spec.address for spec in specs]


class FakeResolver:
    """Answers from `records`, by (name, kind): hosts, or (host, port) pairs; an exception is raised."""

    def __init__(self, ttl_s=None) -> None:
        self.records = {}
        self.ttl_s = ttl_s
        self.asked = []

    async def look_up(self, name, kind):
        self.asked.append((name, kind))
        found = self.records.get((name, kind), [])
        if isinstance(found, str):
            raise LookupFailedError(found)
        records = tuple(Record(*r) if isinstance(r, tuple) else Record(r) for r in found)
        return Answer(records, self.ttl_s if records else None)
