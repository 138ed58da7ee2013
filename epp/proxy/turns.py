"""Work of many requests, done one kind at a time.

The whole path of a request is more code and data than a core's inner caches hold: what costs 17 µs when it is
done for one request after another costs 50 µs when the rest of the path comes between. So requests that are
under way together take each long step together. It waits for nothing: a request alone goes on at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from typing import Final, Generic, TypeVar

__all__ = ["Turns", "one_by_one"]

_AT_ONCE: Final = 16  # then chunks of answers have their turn

_Item = TypeVar("_Item")


class Turns(Generic[_Item]):
    """Calls `step` with what was added, in that order, after what the event loop has to do now."""

    __slots__ = ("_at_once", "_step", "_waiting")

    def __init__(self, step: Callable[[Iterator[_Item]], object], at_once: int = _AT_ONCE) -> None:
        """`at_once` bounds one turn. What `step` raises goes to the loop's exception handler.

        Items that `step` has not taken then have another turn.
        """
        self._step = step
        self._at_once = at_once
        self._waiting: deque[_Item] = deque()

    def add(self, item: _Item) -> None:
        """Have `step` called with `item`, soon; to be called from the event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._take_turn)
        self._waiting.append(item)

    def flush(self) -> None:
        """Do at once what waits."""
        while self._waiting:
            self._step(self._first(len(self._waiting)))

    def _take_turn(self) -> None:
        waiting = self._waiting
        try:
            self._step(self._first(min(len(waiting), self._at_once)))
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._take_turn)

    def _first(self, count: int) -> Iterator[_Item]:
        """So many items; each leaves the queue when it is asked for."""
        return starmap(self._waiting.popleft, repeat((), count))


def one_by_one(step: Callable[[_Item], object]) -> Callable[[Iterator[_Item]], None]:
    """A step for items on their own."""

    def steps(items: Iterator[_Item]) -> None:
        for item in items:
            step(item)

    return steps
