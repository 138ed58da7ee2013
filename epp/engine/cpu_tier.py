"""The CPU tier: an LRU of block keys, as vLLM's native offload keeps it."""

from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Final

__all__ = ["CpuTier"]

_SLACK: Final = 4  # uses are remembered until they are so many times the keys


class CpuTier:
    """At most `capacity` keys; with capacity 0 it holds nothing.

    A use is a chain of keys that were touched together. Each key knows its latest use, so that what an older
    use says of it is void: touching a chain is one update, and eviction reads the uses from the oldest on.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._use_of: dict[int, int] = {}
        self._uses: deque[tuple[int, list[int]]] = deque()  # number, and keys that are evicted from the end
        self._made = 0
        self._used_keys = 0

    def __len__(self) -> int:
        return len(self._use_of)

    def match(self, keys: Sequence[int]) -> int:
        """How many of the leading keys are held."""
        held = list(map(self._use_of.__contains__, keys))
        return held.index(False) if False in held else len(held)

    def write(self, keys: Sequence[int], known: int = 0) -> int | None:
        """Write a chain through and mark what is held of it as used; return how many keys were new.

        Its first `known` keys were offered before and are not written again. Room is made by evicting the
        least recently used, of a chain its tail first. New keys that cannot all fit are not written: None.
        """
        held, head, offered = self._use_of, keys[:known], keys[known:]
        new = len(offered) - sum(map(held.__contains__, offered))
        fits = new <= self.capacity
        self._use(
            [*filter(held.__contains__, head), *(offered if fits else filter(held.__contains__, offered))]
        )
        self._evict(len(held) - self.capacity)
        return new if fits else None

    def _use(self, chain: list[int]) -> None:
        """The keys of `chain` are the latest used, the first of it last."""
        self._made += 1
        self._use_of.update(zip(chain, repeat(self._made)))
        self._uses.append((self._made, chain))
        self._used_keys += len(chain)
        if self._used_keys > _SLACK * (len(self._use_of) + 1):
            self._forget_void_uses()

    def _forget_void_uses(self) -> None:
        use_of = self._use_of
        kept = ((use, [key for key in chain if use_of.get(key) == use]) for use, chain in self._uses)
        self._uses = deque((use, chain) for use, chain in kept if chain)
        self._used_keys = len(use_of)

    def _evict(self, count: int) -> None:
        use_of = self._use_of
        while count > 0:
            use, chain = self._uses[0]
            while chain and count > 0:
                key = chain.pop()
                self._used_keys -= 1
                if use_of.get(key) == use:
                    del use_of[key]
                    count -= 1
            if not chain:
                self._uses.popleft()

    def clear(self) -> None:
        """Forget everything."""
        self._use_of.clear()
        self._uses.clear()
        self._used_keys = 0

    def check_integrity(self) -> None:
        """Raise AssertionError if the tier holds more than it can, or what no use tells of."""
        if len(self._use_of) > self.capacity:
            raise AssertionError(f"the CPU tier holds {len(self._use_of)} of {self.capacity} blocks")
        if set(self._use_of.items()) - {(key, use) for use, chain in self._uses for key in chain}:
            raise AssertionError("the CPU tier holds blocks that no use tells of")
