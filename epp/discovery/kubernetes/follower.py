"""Keeps a copy of the objects of one kind: list, watch, and list again whenever the watch ends."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from epp.discovery.kubernetes.api import ApiClient, ApiError, Event, Query, WatchEndedError
from epp.discovery.kubernetes.objects import Metadata
from epp.discovery.source import Pause

__all__ = ["FollowPolicy", "Follower", "Named"]

_ABSENT: Final = frozenset({403, 404})  # of an optional kind: not installed, or not allowed


class Named(Protocol):
    """An object with metadata."""

    metadata: Metadata


T = TypeVar("T", bound=Named)


@dataclass(frozen=True, slots=True)
class FollowPolicy:
    """When to look.

    Attributes:
        resync_s: longest time that a watch goes on before everything is listed again.
        first_pause_s, longest_pause_s: before listing again, doubled after each round that brought nothing
            and whose watch was shorter than the longest pause; half of it is random, so that many replicas
            do not ask at once.
        absent_pause_s: between two looks at an optional kind that is not there.
    """

    resync_s: float = 300.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    absent_pause_s: float = 300.0


class Follower(Generic[T]):
    """The objects of one query, as they were told last.

    Whatever ends a watch (the server, a broken or silent connection, a version that is too old), the next
    step is a complete list, so nothing that was missed stays missed.

    Attributes:
        objects: by name; None before the first list.
        problem: why the last round failed, None since a watch began.
        optional: absence is no problem: there are no such objects then, and `on_remark` hears of it once.
    """

    def __init__(
        self,
        client: ApiClient,
        query: Query,
        kind: type[T],
        *,
        on_news: Callable[[], None],
        on_remark: Callable[[str], None],
        pause: Pause,
        random: Callable[[], float],
        policy: FollowPolicy,
        optional: bool = False,
    ) -> None:
        """`on_news` hears of each change and each failure; `random` is in [0, 1)."""
        self.query = query
        self.objects: dict[str, T] | None = None
        self.problem: str | None = None
        self.optional = optional
        self._client = client
        self._decoder = msgspec.json.Decoder(kind)
        self._on_news = on_news
        self._on_remark = on_remark
        self._pause = pause
        self._random = random
        self._policy = policy
        self._barren = 0  # rounds in a row that brought nothing
        self._absent = False

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            wait_s = await self._round()
            await self._pause(wait_s)

    async def _round(self) -> float:
        """List and watch once; how long to wait before the next time."""
        self._barren += 1
        try:
            await self._list_and_watch()
        except WatchEndedError:
            pass
        except ApiError as error:
            if self.optional and error.status in _ABSENT:
                self._is_absent(str(error))
                return self._policy.absent_pause_s
            self.problem = str(error)
            self._on_news()
        return self._wait_s()

    def _wait_s(self) -> float:
        policy = self._policy
        whole = min(policy.first_pause_s * 2.0 ** min(self._barren, 10), policy.longest_pause_s)
        return whole * (0.5 + 0.5 * self._random())

    async def _list_and_watch(self) -> None:
        listing = await self._client.list_all(self.query)
        found = (self._read(bytes(item)) for item in listing.items)
        self.objects = {item.metadata.name: item for item in found if item is not None}
        self._on_news()
        watch = self._client.watch(self.query, listing.version, self._policy.resync_s)
        began = asyncio.get_running_loop().time()
        try:
            async with contextlib.aclosing(watch) as batches:
                async for events in batches:
                    self._take(events)
        finally:
            if asyncio.get_running_loop().time() - began >= self._policy.longest_pause_s:
                self._barren = 0  # nothing happened, but the watch was there

    def _take(self, events: list[Event]) -> None:
        recovered, self.problem = self.problem is not None, None
        if events:
            self._barren = 0
        if self._absent:
            self._absent = False
            self._on_remark(f"{self.query.resource} can be read now")
        changes = sum(self._apply(event) for event in events)
        if changes or recovered:
            self._on_news()

    def _apply(self, event: Event) -> bool:
        """One event; False when it changes nothing."""
        if event.type == "BOOKMARK":
            return False
        item = self._read(bytes(event.object))
        if item is None or self.objects is None:
            return False
        if event.type == "DELETED":
            return self.objects.pop(item.metadata.name, None) is not None
        self.objects[item.metadata.name] = item
        return True

    def _read(self, raw: bytes) -> T | None:
        """An object that cannot be read is passed over, and the others count."""
        try:
            return self._decoder.decode(raw)
        except msgspec.MsgspecError as error:
            self._on_remark(f"an object of {self.query.resource} cannot be read: {error}")
            return None

    def _is_absent(self, why: str) -> None:
        self.objects, self.problem = {}, None
        if not self._absent:
            self._absent = True
            self._on_remark(f"{why}; what it would tell is not used")
        self._on_news()
