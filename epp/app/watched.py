"""Values made from files, made anew when the files change.

A file that cannot be used any more leaves the last good value in effect. That is logged, counted and told by
`faults` until it can be used again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["WatchedFiles"]

logger = logging.getLogger("epp")

_POLL_S: Final = 5.0

T = TypeVar("T")
_Fingerprint = tuple[tuple[int, int, int] | None, ...]


async def _nothing(_value: Any) -> None:
    """Nobody uses the value yet."""


@dataclass(slots=True)
class _Watched:
    """One value; `fault` says why its files, as they are, cannot be used."""

    files: tuple[str, ...]
    load: Callable[[], Any]
    seen: _Fingerprint
    apply: Callable[[Any], Awaitable[None]] = _nothing
    fault: str | None = None
    outcomes: dict[str, int] = field(default_factory=lambda: {"ok": 0, "failed": 0})


class WatchedFiles:
    """Looks at the files every `poll_s` seconds, and reads them all when `read_now` was called.

    What is compared is time, size and inode of what a path leads to: so a mounted secret counts as changed,
    whose paths lead through a symbolic link that is replaced.
    """

    def __init__(self, poll_s: float = _POLL_S) -> None:
        self._poll_s = poll_s
        self._watched: dict[str, _Watched] = {}
        self._wanted = asyncio.Event()

    def add(self, name: str, files: Sequence[str], load: Callable[[], T]) -> T:
        """Load a value for the first time, and keep watch over its files. `load` may block.

        Raises:
            Exception: whatever `load` raises.
        """
        seen = _fingerprint(files)
        value = load()
        self._watched[name] = _Watched(tuple(files), load, seen)
        return value

    def on_change(self, name: str, apply: Callable[[Any], Awaitable[None]]) -> None:
        """Give each further value of `name` to `apply`; nothing happens if it is not watched."""
        if name in self._watched:
            self._watched[name].apply = apply

    def read_now(self) -> None:
        """Read every file at once, changed or not."""
        self._wanted.set()

    @property
    def states(self) -> Mapping[str, str]:
        """For each name `in use`, or why its files cannot be used and the last good value stays."""
        return {name: w.fault or "in use" for name, w in self._watched.items()}

    def faults(self) -> Iterator[tuple[str, bool]]:
        """Each name, and whether its files cannot be used."""
        return ((name, w.fault is not None) for name, w in self._watched.items())

    def reloads(self) -> Iterator[tuple[str, str, int]]:
        """Name, `ok` or `failed`, and how often that happened after the start."""
        return (
            (n, outcome, count) for n, w in self._watched.items() for outcome, count in w.outcomes.items()
        )

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._wanted.wait()
            forced = self._wanted.is_set()
            self._wanted.clear()
            for name, watched in self._watched.items():
                await _refresh(name, watched, forced=forced)


async def _refresh(name: str, watched: _Watched, *, forced: bool) -> None:
    """Make the value anew if its files changed; while they are faulty always: a permission may be amiss."""
    seen = await asyncio.to_thread(_fingerprint, watched.files)
    if seen == watched.seen and watched.fault is None and not forced:
        return
    watched.seen = seen
    try:
        await watched.apply(await asyncio.to_thread(watched.load))
    except Exception as error:  # noqa: BLE001  whatever it is, the last good value stays
        fault = str(error) or type(error).__name__
        watched.outcomes["failed"] += 1
        if fault != watched.fault:
            logger.error("%s cannot be loaded anew, the last good one stays in effect: %s", name, fault)  # noqa: TRY400
        watched.fault = fault
    else:
        watched.outcomes["ok"] += 1
        watched.fault = None
        logger.info("%s was loaded anew", name)


def _fingerprint(files: Sequence[str]) -> _Fingerprint:
    return tuple(map(_file_fingerprint, files))


def _file_fingerprint(file: str) -> tuple[int, int, int] | None:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
