"""Runs of blocks, and the holds that say who has them up to where."""

from array import array
from collections.abc import Iterable, Sequence

from epp.prefix.residency import Link, Residency

__all__ = ["Hold", "Run", "hold_below", "lower_half", "sort_out"]


class Run:
    """Consecutive blocks of one path, held in full by everyone in `masks`.

    path    0         start                end
            |- parent -|------- run --------|- children …
                       hashes[0]   hashes[-1]

    Attributes:
        start, end: depths of its first block and behind its last; a parent's `end` is its child's `start`.
        hashes: of its blocks, unsigned 64-bit.
        last: the last of them, once more, to spare a look-up the way to the array.
        parent: the run before it, None at the root.
        children: how many runs follow it.
        lower: the run that this one was cut from, while that exists (see `Hold`).
        weight: tokens of one block, fixed when the run is made.
        masks: by the column of a view, the slots that hold the whole run.
        short: holds that end inside the run, at most `MAX_SHORT` between two calls of the index.
        holds: the holds that end in this run, by whom.
    """

    __slots__ = (
        "children",
        "end",
        "hashes",
        "holds",
        "last",
        "lower",
        "masks",
        "parent",
        "short",
        "start",
        "weight",
    )

    def __init__(
        self, parent: "Run | None", start: int, hashes: "array[int]", weight: int, masks: tuple[int, ...]
    ) -> None:
        self.parent = parent
        self.start = start
        self.end = start + len(hashes)
        self.hashes = hashes
        self.last = hashes[-1]
        self.weight = weight
        self.masks = masks
        self.children = 0
        self.lower: Run | None = None
        self.short: tuple[Hold, ...] = ()
        self.holds: dict[Residency, Hold] = {}

    def admit(self, residency: Residency) -> None:
        """Enters a holder in its view's mask."""
        masks = list(self.masks)
        mask = masks[residency.column]
        # Most runs have one holder a view; the residency's own integer costs them no memory.
        masks[residency.column] = mask | residency.bit if mask else residency.bit
        self.masks = tuple(masks)

    def dismiss(self, residency: Residency) -> None:
        """Strikes a holder out of its view's mask."""
        masks = list(self.masks)
        masks[residency.column] ^= residency.bit
        self.masks = tuple(masks)

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


def sort_out(run: Run, holds: Iterable[Hold]) -> None:
    """Enters `holds`, all that may end inside the run, as full or as short."""
    short = []
    for hold in holds:
        if hold.hi == run.end:
            run.admit(hold.residency)
        else:
            short.append(hold)
    run.short = tuple(short)


def hold_below(run: Run, residency: Residency) -> Hold:
    """The hold that reaches up to `run` from one of the pieces cut from it."""
    piece = run.lower
    while piece is not None:
        hold = piece.holds.get(residency)
        if hold is not None:
            return hold
        piece = piece.lower
    raise AssertionError("a mask names a slot that has no hold")


def lower_half(hold: Hold) -> Hold | None:
    """The hold that continues `hold` downwards: of the same touch, so right before it in the list."""
    older = hold.older
    if isinstance(older, Hold) and older.stamp == hold.stamp and older.lo == hold.hi:
        return older
    return None
