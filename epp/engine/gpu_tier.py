"""The GPU tier: blocks with reference counts; unreferenced ones stay matchable until they are evicted."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import cast

__all__ = ["GpuTier"]


class GpuTier:
    """A pool of `capacity` blocks, named by integers.

    A block is referenced by sequences (several when they share a prefix) or lies in the free list, where it
    keeps its key. New blocks are taken from the front of the free list, so that the list is an LRU of freed
    blocks. The same key may belong to several blocks: sequences that compute the same text side by side do
    not merge.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._references = [0] * capacity
        self._key_of: dict[int, int] = {}
        # The block that a hit takes, and the others with the same key, oldest first.
        self._block_of: dict[int, int] = {}
        self._doubles: dict[int, dict[int, None]] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(capacity))

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence references."""
        return len(self._free)

    def match(self, keys: Sequence[int]) -> list[int]:
        """One block for each of the leading keys that are held."""
        found = list(map(self._block_of.get, keys))
        leading = found.index(None) if None in found else len(found)
        return cast("list[int]", found[:leading])

    def count_free(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` would leave the free list if they were referenced."""
        references = self._references
        return sum(1 for block in blocks if references[block] == 0)

    def reference(self, blocks: Iterable[int]) -> None:
        """Add one reference to each block."""
        references, free = self._references, self._free
        for block in blocks:
            if references[block] == 0:
                del free[block]
            references[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks from the front of the free list, evicting what they held.

        The caller has checked that there are enough.
        """
        pop, references = self._free.popitem, self._references
        forget, block_of, doubles = self._key_of.pop, self._block_of, self._doubles
        blocks = [pop(False)[0] for _ in range(count)]
        for block in blocks:
            references[block] = 1
            key = forget(block, None)
            if key in doubles:
                self._forget_double(block, key)
            elif key is not None:
                del block_of[key]
        return blocks

    def register(self, blocks: Sequence[int], keys: Sequence[int]) -> None:
        """Make full blocks matchable, each by its key; `keys` are distinct."""
        block_of = self._block_of
        self._key_of.update(zip(blocks, keys, strict=True))
        if block_of.keys().isdisjoint(keys):
            block_of.update(zip(keys, blocks, strict=True))
            return
        for block, key in zip(blocks, keys, strict=True):
            if block_of.setdefault(key, block) != block:
                self._doubles.setdefault(key, {})[block] = None

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference from each block; the first to become free is the first to be evicted."""
        references, free = self._references, self._free
        for block in blocks:
            references[block] -= 1
            if references[block] == 0:
                free[block] = None

    def clear(self) -> None:
        """Forget every key; the caller has checked that no block is referenced."""
        self._block_of.clear()
        self._doubles.clear()
        self._key_of.clear()

    def check_integrity(self, references: Sequence[int]) -> None:
        """Raise AssertionError unless the pool agrees with `references`, the counts that its users hold."""
        if self._references != list(references):
            raise AssertionError("reference counts differ from what sequences hold")
        free = {block for block, count in enumerate(self._references) if count == 0}
        if free != set(self._free):
            raise AssertionError("the free list is not the set of unreferenced blocks")
        pairs = [(block, key) for key, block in self._block_of.items()]
        pairs += [(block, key) for key, blocks in self._doubles.items() for block in blocks]
        if len(pairs) != len(set(pairs)) or set(pairs) != set(self._key_of.items()):
            raise AssertionError("keys and blocks do not map to each other")
        if not all(self._doubles.values()):
            raise AssertionError("a key without blocks is kept")

    def _forget_double(self, block: int, key: int) -> None:
        doubles = self._doubles[key]
        if self._block_of[key] == block:
            block = self._block_of[key] = next(iter(doubles))
        del doubles[block]
        if not doubles:
            del self._doubles[key]
