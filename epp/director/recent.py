"""Numbers by key, no more of them than are used."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = ["RecentNumbers"]

_MOST: Final = 1024

Key = TypeVar("Key", bound=Hashable)


class RecentNumbers(Generic[Key]):
    """A number for each key; of too many keys the one that was set longest ago is forgotten.

    While endpoints have not told their models, names are whatever clients make up.
    """

    __slots__ = ("_most", "_numbers", "get")

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._numbers: OrderedDict[Key, float] = OrderedDict()
        # The number of a key, None when it has none. Bound once: it is asked several times a request.
        self.get = self._numbers.get

    def set(self, key: Key, number: float) -> None:
        """Give `key` a number."""
        numbers = self._numbers
        numbers[key] = number
        numbers.move_to_end(key)
        if len(numbers) > self._most:
            numbers.popitem(last=False)

    def blend(self, key: Key, number: float, weight: float) -> None:
        """Move the number of `key` towards `number` by the share `weight`; the first is taken as it is."""
        old = self._numbers.get(key, number)
        self.set(key, old + weight * (number - old))

    def set_oldest(self, key: Key, number: float) -> None:
        """Give `key` a number if it has none and there is room; it is the first to be forgotten."""
        if key not in self._numbers and len(self._numbers) < self._most:
            self._numbers[key] = number
            self._numbers.move_to_end(key, last=False)

    def all(self) -> dict[Key, float]:
        """A copy of everything, what was set longest ago first."""
        return dict(self._numbers)
