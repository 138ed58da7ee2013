"""A radix tree of block runs, shared by all views.

A chained hash stands for its whole prefix, so a run of blocks is compared by its last hash alone, and runs
are found in one flat table by their first hash: no run keeps a map of its children. The table is cut into
shards by the hashes' high bits, since a single dictionary of a million keys would stall for tens of
milliseconds when it grows (the low bits place a key inside its shard).
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from epp.prefix.residency import Residency
from epp.prefix.runs import Hold, Run, hold_below, lower_half, sort_out

__all__ = ["MAX_SHORT", "SHARD_SHIFT", "BlockTree"]

_SHARD_BITS: Final = 8
SHARD_SHIFT: Final = 64 - _SHARD_BITS
# Holds that may end inside one run. More would make matching it slow, fewer would cut runs too often.
MAX_SHORT: Final = 4
# A growing run keeps its weight while new blocks differ from it by at most 1/16: estimates drift, and a run
# for each of their values would make paths long.
_WEIGHT_TOLERANCE: Final = 16
_NOWHERE: Final[tuple[Sequence[int], list[Run], int]] = ((), [], 0)


class BlockTree:
    """All runs, and the only code that changes their shape or who holds them."""

    __slots__ = ("columns", "runs", "shards", "walked")

    def __init__(self) -> None:
        self.shards: list[dict[int, Run]] = [{} for _ in range(1 << _SHARD_BITS)]
        self.runs = 0
        self.columns = 0
        # The last chain and what it passes through; void when the shape of the tree changes.
        self.walked: tuple[Sequence[int], list[Run], int] = _NOWHERE

    def widen(self, columns: int) -> Iterator[None]:
        """Gives the masks of all runs so many more columns, a shard at a time.

        Between two steps the tree may be used; runs made meanwhile have them all.
        """
        self.columns += columns
        for shard in self.shards:
            for run in shard.values():
                run.masks = self._padded(run.masks)
            yield

    def _padded(self, masks: tuple[int, ...]) -> tuple[int, ...]:
        return masks + (0,) * (self.columns - len(masks))

    def walk(self, chain: Sequence[int]) -> tuple[list[Run], int]:
        """The runs that `chain` passes through and the depth up to which they hold its hashes.

        Asked again for the same object, as when a request is matched and then claimed, it knows the answer.
        """
        known, path, depth = self.walked
        if known is chain:
            return path, depth
        path = []
        shards, total = self.shards, len(chain)
        parent, depth = None, 0
        while depth < total:
            first = chain[depth]
            run = shards[first >> SHARD_SHIFT].get(first)
            # Another parent means that two different prefixes share a hash; the path ends there.
            if run is None or run.parent is not parent:
                break
            path.append(run)
            end = run.end
            if end > total or chain[end - 1] != run.last:
                depth = run.common_depth(chain)
                break
            parent, depth = run, end
        self.walked = chain, path, depth
        return path, depth

    def grow(self, chain: Sequence[int], weight: int) -> list[Run]:
        """The runs of the whole of `chain`: cuts one where the chain leaves it, adds what is missing.

        Added blocks weigh `weight` each, or what the run weighs that they lengthen. They are held by nobody
        until `fill` is called for them.
        """
        path, depth = self.walk(chain)
        if path and depth < path[-1].end:
            path[-1] = self.cut(path[-1], depth)
        if depth < len(chain):
            self._append(path, chain, depth, weight)
        return path

    def _append(self, path: list[Run], chain: Sequence[int], depth: int, weight: int) -> None:
        self.walked = _NOWHERE
        tip = path[-1] if path else None
        hashes = array("Q", chain[depth:])
        if (
            tip is not None
            and not tip.children
            and len(tip.holds) <= MAX_SHORT
            and _alike(tip.weight, weight)
        ):
            self._lengthen(tip, hashes)
            return
        shard = self.shards[hashes[0] >> SHARD_SHIFT]
        if hashes[0] in shard:  # the hash of another prefix, see `walk`
            return
        run = shard[hashes[0]] = Run(tip, depth, hashes, weight, (0,) * self.columns)
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
        leaf.last = hashes[-1]
        # Nothing lies below a leaf, so everyone who holds it is registered with it.
        leaf.short = tuple(leaf.holds.values())
        leaf.masks = (0,) * self.columns

    def cut(self, run: Run, depth: int) -> Run:
        """Cuts `run` at `depth`, strictly inside it, and returns the new run above the cut.

        before  |-------- run --------|       after  |-- head --|--- run ---|
                ═══════════════════════ a            ═══════════════════════ a   stays with run
                ═══════════════ b                    ═══════════════ b           stays, short
                ═══════ c                            ═══════ c                   moves to head

        Costs the same for any number of holders: only the short ones are looked at.
        """
        self.walked = _NOWHERE
        length = depth - run.start
        run.masks = self._padded(run.masks)  # its new key may lie in a shard that `widen` has passed
        head = Run(run.parent, run.start, run.hashes[:length], run.weight, run.masks)
        head.children = 1
        head.lower = run
        for hold in run.short:
            if hold.hi > depth:
                head.admit(hold.residency)
            else:
                head.holds[hold.residency] = run.holds.pop(hold.residency)
                hold.run = head
        run.short = tuple(hold for hold in run.short if hold.hi > depth)
        sort_out(head, head.holds.values())
        if run.parent is not None and run.parent.lower is run:
            run.parent.lower = head
        self.shards[head.hashes[0] >> SHARD_SHIFT][head.hashes[0]] = head
        del run.hashes[:length]
        run.start = depth
        run.parent = head
        self.shards[run.hashes[0] >> SHARD_SHIFT][run.hashes[0]] = run
        self.runs += 1
        return head

    def take(self, residency: Residency, run: Run) -> Hold:
        """A hold of `residency` that ends in `run`, where it has none, as its newest; `fill` completes it.

        Where the run is held through a piece below it, the hold there is parted at the run's end:

        before      |-- run --|-- piece --|       after      |-- run --|-- piece --|
                    ═══════════════════════                  ══════════ ═══════════
        """
        hold = run.holds[residency] = Hold(residency, run)
        residency.append(hold)
        if run.masks[residency.column] & residency.bit:
            below = hold_below(run, residency)
            hold.lo, hold.hi, below.lo = below.lo, run.end, run.end
        return hold

    def fill(self, hold: Hold) -> None:
        """Makes `hold` reach the end of its run."""
        run, residency = hold.run, hold.residency
        added = run.end - hold.hi
        residency.blocks += added
        residency.tokens += added * run.weight
        run.admit(residency)
        hold.hi = run.end
        if run.short:
            run.short = tuple(other for other in run.short if other is not hold)

    def shed(self, hold: Hold, blocks: int) -> None:
        """Gives up the deepest blocks of `hold`: at most `blocks`, and only in the run where it ends."""
        run, residency, before = hold.run, hold.residency, hold.hi
        hi = max(run.start, before - blocks)
        residency.blocks -= before - hi
        residency.tokens -= (before - hi) * run.weight
        full = before == run.end
        if full:
            run.dismiss(residency)
        hold.hi = hi
        if hi == run.start:
            self._leave(hold)
        elif full:
            run.short += (hold,)
        self._settle(run, hi)

    def _leave(self, hold: Hold) -> None:
        """Takes an emptied hold out of its run: to the piece above where it goes on, else out of its list."""
        run, residency = hold.run, hold.residency
        if run.short:
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
            self.walked = _NOWHERE
            # The longest hold is the run's new end; nothing can follow what nobody holds.
            run.end = max(hold.hi for hold in run.short)
            del run.hashes[run.end - run.start :]
            run.last = run.hashes[-1]
            sort_out(run, run.short)
        else:
            self._remove(run)

    def mend(self, path: Sequence[Run]) -> None:
        """Joins neighbours on a path that nothing keeps apart, where branches between them have gone."""
        below: Run | None = None
        for run in reversed(path):
            if below is None or run.children != 1 or (seams := _seams(run, below)) is None:
                below = run
            else:
                self._join(run, below, seams)

    def _join(self, above: Run, below: Run, seams: Iterable[tuple[Hold, Hold]]) -> None:
        """Puts `above` in front of `below`, its only child, and each hold in front of the one it goes on in.

        before  |-- above --|-- below --|         after  |-------- below --------|
                ═══════════ ═══════════ a                ═══════════════════════ a
        """
        for hold, lower in seams:
            lower.lo = hold.lo
            hold.hi = hold.lo
            hold.unlink()
        above.holds.clear()
        self._unlist(below)
        self.shards[above.hashes[0] >> SHARD_SHIFT][above.hashes[0]] = below
        above.hashes.extend(below.hashes)
        below.hashes = above.hashes
        below.start = above.start
        below.parent = above.parent
        if above.parent is not None and above.parent.lower is above:
            above.parent.lower = below
        self.runs -= 1

    def _remove(self, run: Run) -> None:
        self._unlist(run)
        self.runs -= 1
        if run.parent is not None:
            run.parent.children -= 1
            if run.parent.lower is run:
                run.parent.lower = None

    def _unlist(self, run: Run) -> None:
        self.walked = _NOWHERE
        shard = self.shards[run.hashes[0] >> SHARD_SHIFT]
        if shard.get(run.hashes[0]) is run:  # else another prefix has the same hash, see `walk`
            del shard[run.hashes[0]]


def _alike(weight: int, other: int) -> bool:
    return abs(weight - other) * _WEIGHT_TOLERANCE <= weight


def _seams(above: Run, below: Run) -> list[tuple[Hold, Hold]] | None:
    """The holds that end in `above`, each with the one that continues it in its only child `below`.

    None where the two runs have to stay apart: they differ in weight or holders, or a hold goes on in none.
    """
    if above.weight != below.weight or above.short or above.masks != below.masks:
        return None
    if len(above.holds) > MAX_SHORT:  # an effort for few holders only
        return None
    seams = [(hold, lower) for hold in above.holds.values() if (lower := lower_half(hold))]
    return seams if len(seams) == len(above.holds) else None
