"""The GPU tier: blocks with reference counts; unreferenced ones stay matchable until they are evicted."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, cast

__all__ = ["GpuTier"]

_SLACK: Final = 4  # releases are remembered until they are so many times the blocks


class GpuTier:
    """A pool of `capacity` blocks, named by integers.

    A block is referenced by sequences (several when they share a prefix) or is free, and then keeps its key.
    New blocks are those that have been free for longest. The same key may belong to several blocks: sequences
    that compute the same text side by side do not merge.

    Of a referenced block the state is the number of references; of a free one it is minus the number of the
    release that freed it, so that what an older release says of it is void.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.free_blocks = capacity
        self._state = [0] * capacity
        self._key_of: list[int | None] = [None] * capacity
        # The block that a hit takes, and the others with the same key, oldest first.
        self._block_of: dict[int, int] = {}
        self._doubles: dict[int, dict[int, None]] = {}
        # Number, and blocks that are taken from the end.
        self._releases: deque[tuple[int, list[int]]] = deque([(0, list(range(capacity - 1, -1, -1)))])
        self._released = capacity
        self._made = 0

    def match(self, keys: Sequence[int]) -> list[int]:
        """One block for each of the leading keys that are held."""
        found = list(map(self._block_of.get, keys))
        leading = found.index(None) if None in found else len(found)
        return cast("list[int]", found[:leading])

    def count_free(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` would no longer be free if they were referenced."""
        state = self._state
        return len([block for block in blocks if state[block] <= 0])

    def count_alone(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` would be free if one user of them let go."""
        state = self._state
        return len([block for block in blocks if state[block] == 1])

    def reference(self, blocks: Iterable[int]) -> None:
        """Add one reference to each block."""
        state = self._state
        for block in blocks:
            references = state[block]
            if references > 0:
                state[block] = references + 1
            else:
                state[block] = 1
                self.free_blocks -= 1

    def allocate(self, count: int) -> list[int]:
        """Take the `count` blocks that have been free for longest, evicting what they held.

        The caller has checked that there are enough.
        """
        self.free_blocks -= count
        blocks: list[int] = []
        while len(blocks) < count:
            number, freed = self._releases[0]
            told = len(freed)
            self._take(freed, -number, count, blocks)
            self._released -= told - len(freed)
            if not freed:
                self._releases.popleft()
        return blocks

    def _take(self, freed: list[int], free: int, count: int, blocks: list[int]) -> None:
        """Move those of `freed` that are still free to `blocks`, up to `count`, and evict their keys."""
        state, key_of, doubles = self._state, self._key_of, self._doubles
        while freed and len(blocks) < count:
            block = freed.pop()
            if state[block] != free:
                continue
            state[block] = 1
            blocks.append(block)
            key = key_of[block]
            if key is None:
                continue
            key_of[block] = None
            if key in doubles:
                self._forget_double(block, key)
            else:
                del self._block_of[key]

    def register(self, blocks: Sequence[int], keys: Sequence[int]) -> None:
        """Make full blocks matchable, each by its key; `keys` are distinct."""
        key_of, block_of = self._key_of, self._block_of
        for block, key in zip(blocks, keys, strict=True):
            key_of[block] = key
        if block_of.keys().isdisjoint(keys):
            block_of.update(zip(keys, blocks, strict=True))
            return
        for block, key in zip(blocks, keys, strict=True):
            if block_of.setdefault(key, block) != block:
                self._doubles.setdefault(key, {})[block] = None

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference from each block; the first to become free is the first to be evicted."""
        self._made += 1
        state, free = self._state, -self._made
        freed = []
        for block in blocks:
            references = state[block]
            if references == 1:
                state[block] = free
                freed.append(block)
            else:
                state[block] = references - 1
        if freed:
            self.free_blocks += len(freed)
            self._released += len(freed)
            self._releases.append((self._made, freed[::-1]))
            if self._released > _SLACK * self.capacity:
                self._forget_void_releases()

    def _forget_void_releases(self) -> None:
        state = self._state
        kept = ((number, [b for b in freed if state[b] == -number]) for number, freed in self._releases)
        self._releases = deque((number, freed) for number, freed in kept if freed)
        self._released = self.free_blocks

    def clear(self) -> None:
        """Forget every key; the caller has checked that no block is referenced."""
        self._block_of.clear()
        self._doubles.clear()
        self._key_of = [None] * self.capacity

    def check_integrity(self, references: Sequence[int]) -> None:
        """Raise AssertionError unless the pool agrees with `references`, the counts that its users hold."""
        if [max(0, state) for state in self._state] != list(references):
            raise AssertionError("reference counts differ from what sequences hold")
        free = [block for block, count in enumerate(references) if count == 0]
        told = [b for number, freed in self._releases for b in freed if self._state[b] == -number]
        if sorted(told) != free or len(free) != self.free_blocks:
            raise AssertionError("the releases do not tell of the unreferenced blocks")
        pairs = [(block, key) for key, block in self._block_of.items()]
        pairs += [(block, key) for key, blocks in self._doubles.items() for block in blocks]
        if sorted(pairs) != [(block, key) for block, key in enumerate(self._key_of) if key is not None]:
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
