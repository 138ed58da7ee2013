"""What a router has learned outlives its process: saved now and then and at its end, taken over by the next.

A saved state is taken over endpoint by endpoint, as soon as each has been scraped and has so shown to be the
incarnation that it was. Until that is done, or for half a minute, nothing is saved over it.

Of several replicas with an election only the leader saves, and one that becomes leader takes over what it
finds: with a directory that all share, what the leader before has left.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, TypeVar

from epp.app.state_file import STATE_FILE, read_state, write_state
from epp.clock import Clock
from epp.compose import Core
from epp.config import StateSettings
from epp.director.saved import (
    Saved,
    SavedEndpoint,
    SavedView,
    collect,
    differences,
    hashing_fingerprint,
    restore,
    restore_ratios,
)
from epp.director.saved_file import SavedFileError
from epp.endpoints.types import Endpoint
from epp.observability.change_metrics import StateKept

__all__ = ["WarmStart"]

logger = logging.getLogger("epp.state")

_TICK_S: Final = 0.05
_FIRST_LOOK_S: Final = 1.0
_PATIENCE_S: Final = 30.0
_MODELS_S: Final = 2.0  # for an endpoint to list its models, once it has been scraped
_SKEW_S: Final = 60.0

T = TypeVar("T")


class WarmStart:
    """Saves and takes over the state of one router."""

    def __init__(
        self,
        settings: StateSettings,
        core: Callable[[], Core],
        clock: Clock,
        *,
        leads: Callable[[], bool] = lambda: True,
        takes_over: bool = True,
    ) -> None:
        """`core` is the one in effect; while `leads` says False, another replica serves. Without `takes_over`
        the state is only saved.
        """
        self._settings = settings
        self._folder = Path(settings.dir or ".")
        self._core = core
        self._clock = clock
        self._leads = leads
        self._takes_over = takes_over
        self._led = False
        self._saved: Saved | None = None
        self._pending: dict[str, SavedEndpoint] = {}  # those of `_saved` that have not been seen yet
        self._loaded_at = 0.0
        self._saved_at: float | None = None
        self._known_until = float("-inf")  # when the newest state was saved that is in the index here
        self._next_save = self._due()
        self._size = 0
        self._entries = 0
        self._age_s: float | None = None
        self._loads = {"used": 0, "absent": 0, "refused": 0}
        self._saves = {"ok": 0, "failed": 0}
        self._saving = asyncio.Lock()

    def report(self) -> StateKept:
        """For metrics."""
        return StateKept(
            self._entries, self._age_s, dict(self._loads), dict(self._saves), self._saved_at, self._size
        )

    async def start(self) -> None:
        """Take over what endpoints show to be theirs, for a moment before requests come."""
        await self._follow_leadership()
        end = self._clock.monotonic() + _FIRST_LOOK_S
        while self._awaited() and self._clock.monotonic() < end:
            await asyncio.sleep(_TICK_S / 5)
            await self._take_over()

    def _awaited(self) -> bool:
        table = self._core().table
        return any(table.endpoint(address) is not None for address in self._pending)

    async def run(self) -> None:
        """Go on for ever."""
        while True:
            await self._follow_leadership()
            await self._take_over()
            if self._clock.monotonic() >= self._next_save:
                await self.save()
            await asyncio.sleep(_TICK_S)

    def save_soon(self) -> None:
        """What was saved is no longer so: a cache was reset."""
        self._next_save = self._clock.monotonic()

    async def save(self) -> None:
        """Save, unless another replica serves, or what was read still waits for its endpoints.

        What fails is logged and counted; serving is not touched by it.
        """
        async with self._saving:
            self._next_save = self._due()
            if not self._leads() or self._pending:
                return
            at = self._clock.wall()
            try:
                saved = await _in_steps(collect(self._core().state, at))
                self._size = await asyncio.to_thread(write_state, self._folder, saved)
            except Exception as error:  # noqa: BLE001  whatever it is, requests are served
                self._saves["failed"] += 1
                why = error.strerror if isinstance(error, OSError) else repr(error)
                logger.warning("the state cannot be saved in %s: %s", self._folder, why)
                return
            self._saves["ok"] += 1
            self._saved_at = self._known_until = at

    def _due(self) -> float:
        interval_s = self._settings.interval_s
        return self._clock.monotonic() + interval_s if interval_s else float("inf")

    async def _follow_leadership(self) -> None:
        leads = self._leads()
        if leads and not self._led and self._takes_over:
            await self._load()
        self._led = leads

    async def _load(self) -> None:
        """Read the file, and refuse it with the reason."""
        try:
            saved = await asyncio.to_thread(read_state, self._folder)
            if saved is None:
                self._loads["absent"] += 1
                return
            if saved.header.saved_at <= self._known_until:
                return  # leading again, and nobody else has saved since
            self._check(saved)
        except (OSError, SavedFileError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._loads["refused"] += 1
            logger.warning("the saved state in %s is not used: %s", self._folder / STATE_FILE, why)
            return
        self._loads["used"] += 1
        self._known_until = saved.header.saved_at
        self._age_s = max(0.0, self._age(saved))
        self._saved, self._loaded_at = saved, self._clock.monotonic()
        listed = {saved.header.endpoints[part.endpoint].address for part in saved.header.lists}
        self._pending = {e.address: e for e in saved.header.endpoints if e.address in listed}
        await _in_steps(restore_ratios(self._core().state.ratios, saved.header))

    def _age(self, saved: Saved) -> float:
        return self._clock.wall() - saved.header.saved_at

    def _check(self, saved: Saved) -> None:
        """Raises SavedFileError if nothing of it can be right."""
        age_s, longest_s = self._age(saved), self._settings.max_age_s
        if age_s > longest_s:
            raise SavedFileError(f"it is {age_s:.0f} s old, more than state.maxAge ({longest_s:g} s)")
        if age_s < -_SKEW_S:
            raise SavedFileError(f"it was saved {-age_s:.0f} s from now; a clock is wrong")
        if saved.header.fingerprint != hashing_fingerprint():
            raise SavedFileError("prompts were hashed in another way")
        state = self._core().state
        views = {(v.name, v.tier.value, v.block_bytes) for v in (*state.views, *state.shadow_views)}
        missing = [v for v in saved.header.views if (v.name, v.tier, v.block_bytes) not in views]
        if missing and len(missing) == len(saved.header.views):
            raise SavedFileError(f"the configuration has no {', nor '.join(map(_shown, missing))}")
        for view in missing:
            logger.warning("saved index entries are not used: the configuration has no %s", _shown(view))

    async def _take_over(self) -> None:
        """Give what was saved to the endpoints that can be told to be the same."""
        saved = self._saved
        if saved is None:
            return
        for address in list(self._pending):
            endpoint = self._core().table.endpoint(address)
            if endpoint is not None and self._is_known(endpoint, self._pending[address]):
                await self._give(saved, endpoint, self._pending.pop(address))
        if self._pending and self._clock.monotonic() - self._loaded_at > _PATIENCE_S:
            logger.warning("saved index entries are not used, not seen again: %s", ", ".join(self._pending))
            self._pending = {}
        if not self._pending:
            self._saved = None
            logger.info("saved state taken over", extra={"entries": self._entries, "age_s": self._age_s})

    def _is_known(self, endpoint: Endpoint, before: SavedEndpoint) -> bool:
        """Whether the endpoint has shown what it is compared by."""
        if endpoint.metrics is None:
            return False
        waited_s = self._clock.monotonic() - self._loaded_at
        return bool(endpoint.models) or not before.models or waited_s > _MODELS_S

    async def _give(self, saved: Saved, endpoint: Endpoint, before: SavedEndpoint) -> None:
        why = differences(before, endpoint)
        if why is None:
            try:
                self._entries += await _in_steps(restore(self._core().state, saved, endpoint))
            except Exception as error:  # noqa: BLE001  whatever is in the file, requests are served
                why = str(error) or repr(error)
        if why is not None:
            logger.warning("saved index entries of %s are not used: %s", endpoint.address, why)


def _shown(view: SavedView) -> str:
    return f"producer {view.name!r} of tier {view.tier} with blocks of {view.block_bytes} bytes"


async def _in_steps(steps: Generator[None, None, T]) -> T:
    """Let requests be served between the steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await asyncio.sleep(0)
