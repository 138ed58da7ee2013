"""The CPU tier: an LRU of block keys, as vLLM's native offload keeps it."""

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ["CpuTier"]


class CpuTier:
    """At most `capacity` keys; with capacity 0 it holds nothing."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._held: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def match(self, keys: Sequence[int]) -> int:
        """How many of the leading keys are held."""
        held = list(map(self._held.__contains__, keys))
        return held.index(False) if False in held else len(held)

    def store(self, keys: Sequence[int]) -> int | None:
        """Write `keys` through and return how many were new.

        Room is made by evicting the least recently used. Keys that cannot all fit are not stored: None.
        """
        held = self._held
        new = [key for key in dict.fromkeys(keys) if key not in held]
        if len(new) > self.capacity:
            return None
        for _ in range(len(self._held) + len(new) - self.capacity):
            self._held.popitem(last=False)
        self._held.update(dict.fromkeys(new))
        return len(new)

    def touch(self, keys: Sequence[int]) -> None:
        """Mark a chain as used, deepest block first, so that tails are evicted before heads."""
        move = self._held.move_to_end
        for key in filter(self._held.__contains__, reversed(keys)):
            move(key)

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()

    def check_integrity(self) -> None:
        """Raise AssertionError if the tier holds more than it can."""
        if len(self._held) > self.capacity:
            raise AssertionError(f"the CPU tier holds {len(self._held)} of {self.capacity} blocks")
