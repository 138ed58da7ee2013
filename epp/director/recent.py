"""Numbers by name, no more of them than are used."""

from collections import OrderedDict
from typing import Final

__all__ = ["RecentNumbers"]

_MOST: Final = 1024


class RecentNumbers:
    """A number for each name; of too many names the one that was set longest ago is forgotten.

    While endpoints have not told their models, names are whatever clients make up.
    """

    __slots__ = ("_most", "_numbers")

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._numbers: OrderedDict[str, float] = OrderedDict()

    def get(self, name: str) -> float | None:
        """The number of `name`, None when it has none."""
        return self._numbers.get(name)

    def set(self, name: str, number: float) -> None:
        """Give `name` a number."""
        self._numbers[name] = number
        self._numbers.move_to_end(name)
        if len(self._numbers) > self._most:
            self._numbers.popitem(last=False)

    def all(self) -> dict[str, float]:
        """A copy of everything."""
        return dict(self._numbers)
