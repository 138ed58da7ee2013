"""The GPU tier: blocks with reference counts; unreferenced ones stay matchable until they are evicted."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

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
        self._key_of: list[int | None] = [None] * capacity
        self._blocks_of: dict[int, dict[int, None]] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(capacity))

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence references."""
        return len(self._free)

    def match(self, keys: Sequence[int]) -> list[int]:
        """One block for each of the leading keys that are held."""
        blocks = []
        for key in keys:
            holders = self._blocks_of.get(key)
            if holders is None:
                break
            blocks.append(next(iter(holders)))
        return blocks

    def count_free(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` would leave the free list if they were referenced."""
        return sum(1 for block in blocks if self._references[block] == 0)

    def reference(self, blocks: Iterable[int]) -> None:
        """Add one reference to each block."""
        for block in blocks:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks from the front of the free list, evicting what they held.

        The caller has checked that there are enough.
        """
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self._references[block] = 1
        return blocks

    def register(self, block: int, key: int) -> None:
        """Make a full block matchable."""
        self._key_of[block] = key
        self._blocks_of.setdefault(key, {})[block] = None

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference from each block; the first to become free is the first to be evicted."""
        for block in blocks:
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None

    def clear(self) -> None:
        """Forget every key; the caller has checked that no block is referenced."""
        self._blocks_of.clear()
        self._key_of = [None] * self.capacity

    def check_integrity(self, references: Sequence[int]) -> None:
        """Raise AssertionError unless the pool agrees with `references`, the counts that its users hold."""
        if self._references != list(references):
            raise AssertionError("reference counts differ from what sequences hold")
        free = {block for block, count in enumerate(self._references) if count == 0}
        if free != set(self._free):
            raise AssertionError("the free list is not the set of unreferenced blocks")
        pairs = {(key, block) for key, blocks in self._blocks_of.items() for block in blocks}
        if pairs != {(key, block) for block, key in enumerate(self._key_of) if key is not None}:
            raise AssertionError("keys and blocks do not map to each other")
        if not all(self._blocks_of.values()):
            raise AssertionError("a key without blocks is kept")

    def _forget(self, block: int) -> None:
        key = self._key_of[block]
        if key is None:
            return
        self._key_of[block] = None
        holders = self._blocks_of[key]
        del holders[block]
        if not holders:
            del self._blocks_of[key]
