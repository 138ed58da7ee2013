"""A radix tree of block runs, shared by all views.

A chained hash stands for its whole prefix, so a run of blocks is compared by its last hash alone, and runs
are found in one flat table by their first hash: no run keeps a map of its children. The table is cut into
shards by the hashes' high bits, since a single dictionary of a million keys would stall for tens of
milliseconds when it grows (the low bits place a key inside its shard).
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from epp.prefix.residency import Link, Residency

__all__ = ["MAX_SHORT", "BlockTree", "Hold", "Run"]

_SHARD_BITS: Final = 10
_SHARD_SHIFT: Final = 64 - _SHARD_BITS
# Holds that may end inside one run. More would make matching it slow, fewer would cut runs too often.
MAX_SHORT: Final = 4


class Run:
    """Consecutive blocks of one path, held in full by everyone in `masks`.

    path    0         start                end
            |- parent -|------- run --------|- children …
                       hashes[0]   hashes[-1]

    Attributes:
        start, end: depths of its first block and behind its last; a parent's `end` is its child's `start`.
        hashes: of its blocks, unsigned 64-bit.
        parent: the run before it, None at the root.
        children: how many runs follow it.
        lower: the run that this one was cut from, while that exists (see `Hold`).
        weight: tokens of one block, fixed when the run is made.
        masks: by view, the slots that hold the whole run.
        short: holds that end inside the run, at most `MAX_SHORT` between two calls of the index.
        holds: the holds that end in this run, by whom.
    """

    __slots__ = (
        "children",
        "end",
        "hashes",
        "holds",
        "lower",
        "masks",
        "parent",
        "short",
        "start",
        "weight",
    )

    def __init__(
        self, parent: "Run | None", start: int, hashes: "array[int]", weight: int, masks: list[int]
    ) -> None:
        self.parent = parent
        self.start = start
        self.end = start + len(hashes)
        self.hashes = hashes
        self.weight = weight
        self.masks = masks
        self.children = 0
        self.lower: Run | None = None
        self.short: tuple[Hold, ...] = ()
        self.holds: dict[Residency, Hold] = {}

    def common_depth(self, chain: Sequence[int]) -> int:
        """Depth up to which `chain` follows this run, given that it enters it.

        Hashes are chained: behind the first difference nothing is equal, so bisection finds it.
        """
        hashes, start = self.hashes, self.start
        same, different = 1, min(len(chain) - start, len(hashes))
        while same < different:
            middle = (same + different) // 2
            if hashes[middle] == chain[start + middle]:
                same = middle + 1
            else:
                different = middle
        return start + same


class Hold(Link):
    """Blocks [lo, hi) of a path that one residency touched together: one entry of its LRU list.

    It is registered with the run in which it ends. Runs may be cut without telling their holds, so a hold
    reaches up through the pieces of the run that it was made for, all of one weight:

        as made     |-------------- run --------------|         run.holds: [lo ═══════════ hi)
        after cuts  |-- piece --|-- piece --|-- run --|         run.holds: [lo ═══════════ hi)
                        └─ lower ──▶└─ lower ──▶

    A hold that ends inside its run (`hi < run.end`) is in `run.short`; else its bit is in the run's mask, as
    it is in the masks of all pieces above. An empty hold (`lo == hi`) is dead. `stamp` is the touch that
    last refreshed it.
    """

    __slots__ = ("hi", "lo", "residency", "run", "stamp")

    def __init__(self, residency: Residency, run: Run) -> None:
        self.residency = residency
        self.run = run
        self.lo = run.start
        self.hi = run.start
        self.stamp = 0


class BlockTree:
    """All runs, and the only code that changes their shape or who holds them."""

    __slots__ = ("runs", "shards", "views")

    def __init__(self) -> None:
        self.shards: list[dict[int, Run]] = [{} for _ in range(1 << _SHARD_BITS)]
        self.runs = 0
        self.views = 0

    def walk(self, chain: Sequence[int]) -> tuple[list[Run], int]:
        """The runs that `chain` passes through and the depth up to which they hold its hashes."""
        path: list[Run] = []
        shards, total = self.shards, len(chain)
        parent, depth = None, 0
        while depth < total:
            first = chain[depth]
            run = shards[first >> _SHARD_SHIFT].get(first)
            # Another parent means that two different prefixes share a hash; the path ends there.
            if run is None or run.parent is not parent:
                break
            path.append(run)
            end = run.end
            if end > total or chain[end - 1] != run.hashes[-1]:
                return path, run.common_depth(chain)
            parent, depth = run, end
        return path, depth

    def grow(self, chain: Sequence[int], weight: int) -> list[Run]:
        """The runs of the whole of `chain`: cuts one where the chain leaves it, adds what is missing.

        Added blocks weigh `weight` each. They are held by nobody until `fill` is called for them.
        """
        path, depth = self.walk(chain)
        if path and depth < path[-1].end:
            path[-1] = self.cut(path[-1], depth)
        if depth < len(chain):
            self._append(path, chain, depth, weight)
        return path

    def _append(self, path: list[Run], chain: Sequence[int], depth: int, weight: int) -> None:
        tip = path[-1] if path else None
        hashes = array("Q", chain[depth:])
        if tip is not None and not tip.children and tip.weight == weight and len(tip.holds) <= MAX_SHORT:
            self._lengthen(tip, hashes)
            return
        shard = self.shards[hashes[0] >> _SHARD_SHIFT]
        if hashes[0] in shard:  # the hash of another prefix, see `walk`
            return
        run = shard[hashes[0]] = Run(tip, depth, hashes, weight, [0] * self.views)
        self.runs += 1
        if tip is not None:
            tip.children += 1
        path.append(run)

    def _lengthen(self, leaf: Run, hashes: "array[int]") -> None:
        """Appends to a run without children, so that a growing conversation stays one run.

        before  |-- leaf --|            after  |-- leaf ----------|
                ═══════════ hold               ═══════════ hold        (short)
        """
        leaf.hashes.extend(hashes)
        leaf.end += len(hashes)
        # Nothing lies below a leaf, so everyone who holds it is registered with it.
        leaf.short = tuple(leaf.holds.values())
        leaf.masks = [0] * self.views

    def cut(self, run: Run, depth: int) -> Run:
        """Cuts `run` at `depth`, strictly inside it, and returns the new run above the cut.

        before  |-------- run --------|       after  |-- head --|--- run ---|
                ═══════════════════════ a            ═══════════════════════ a   stays with run
                ═══════════════ b                    ═══════════════ b           stays, short
                ═══════ c                            ═══════ c                   moves to head

        Costs the same for any number of holders: only the short ones are looked at.
        """
        length = depth - run.start
        head = Run(run.parent, run.start, run.hashes[:length], run.weight, run.masks.copy())
        head.children = 1
        head.lower = run
        for hold in run.short:
            if hold.hi > depth:
                head.masks[hold.residency.view] |= hold.residency.bit
            else:
                head.holds[hold.residency] = run.holds.pop(hold.residency)
                hold.run = head
        run.short = tuple(hold for hold in run.short if hold.hi > depth)
        _sort_out(head, head.holds.values())
        if run.parent is not None and run.parent.lower is run:
            run.parent.lower = head
        self.shards[head.hashes[0] >> _SHARD_SHIFT][head.hashes[0]] = head
        del run.hashes[:length]
        run.start = depth
        run.parent = head
        self.shards[run.hashes[0] >> _SHARD_SHIFT][run.hashes[0]] = run
        self.runs += 1
        return head

    def take(self, residency: Residency, run: Run) -> Hold:
        """The hold of `residency` that ends in `run`, as its newest; `fill` then makes it complete.

        Where the run is held through a piece below it, the hold there is parted at the run's end:

        before      |-- run --|-- piece --|       after      |-- run --|-- piece --|
                    ═══════════════════════                  ══════════ ═══════════
        """
        hold = run.holds.get(residency)
        if hold is None:
            hold = run.holds[residency] = Hold(residency, run)
            residency.append(hold)
            if run.masks[residency.view] & residency.bit:
                below = _hold_below(run, residency)
                hold.lo, hold.hi, below.lo = below.lo, run.end, run.end
        else:
            residency.make_newest(hold)
        return hold

    def fill(self, hold: Hold) -> None:
        """Makes `hold` reach the end of its run."""
        run, residency = hold.run, hold.residency
        added = run.end - hold.hi
        residency.blocks += added
        residency.tokens += added * run.weight
        run.short = tuple(other for other in run.short if other is not hold)
        run.masks[residency.view] |= residency.bit
        hold.hi = run.end

    def shed(self, hold: Hold, blocks: int) -> None:
        """Gives up the deepest blocks of `hold`: at most `blocks`, and only in the run where it ends."""
        run, residency = hold.run, hold.residency
        hi = max(run.start, hold.hi - blocks)
        residency.blocks -= hold.hi - hi
        residency.tokens -= (hold.hi - hi) * run.weight
        if hold.hi == run.end:
            run.masks[residency.view] ^= residency.bit
            run.short += (hold,)
        hold.hi = hi
        if hi == run.start:
            self._leave(hold)
        self._settle(run, hi)

    def _leave(self, hold: Hold) -> None:
        """Takes an emptied hold out of its run: to the piece above where it goes on, else out of its list."""
        run, residency = hold.run, hold.residency
        run.short = tuple(other for other in run.short if other is not hold)
        del run.holds[residency]
        if run.parent is not None and hold.lo < run.start:
            hold.run = run.parent
            run.parent.holds[residency] = hold
        else:
            hold.unlink()

    def _settle(self, run: Run, hi: int) -> None:
        """Restores the rules of a run after one of its holds was cut back to `hi`."""
        if any(run.masks):
            if len(run.short) > MAX_SHORT:
                self.cut(run, hi)
        elif run.short:
            # The longest hold is the run's new end; nothing can follow what nobody holds.
            run.end = max(hold.hi for hold in run.short)
            del run.hashes[run.end - run.start :]
            _sort_out(run, run.short)
        else:
            self._remove(run)

    def _remove(self, run: Run) -> None:
        shard = self.shards[run.hashes[0] >> _SHARD_SHIFT]
        if shard.get(run.hashes[0]) is run:  # another prefix may have the same hash, see `walk`
            del shard[run.hashes[0]]
        self.runs -= 1
        if run.parent is not None:
            run.parent.children -= 1
            if run.parent.lower is run:
                run.parent.lower = None


def _sort_out(run: Run, holds: Iterable[Hold]) -> None:
    """Enters `holds`, all that may end inside the run, as full or as short."""
    short = []
    for hold in holds:
        if hold.hi == run.end:
            run.masks[hold.residency.view] |= hold.residency.bit
        else:
            short.append(hold)
    run.short = tuple(short)


def _hold_below(run: Run, residency: Residency) -> Hold:
    """The hold that reaches up to `run` from one of the pieces cut from it."""
    piece = run.lower
    while piece is not None:
        hold = piece.holds.get(residency)
        if hold is not None:
            return hold
        piece = piece.lower
    raise AssertionError("a mask names a slot that has no hold")
