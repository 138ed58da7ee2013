"""From a walked path to the segments that a match reports."""

from collections.abc import Sequence
from operator import attrgetter

from epp.prefix.runs import Run

__all__ = ["Segments", "view_segments"]

# (mask of slots, leading blocks that each of them holds), see `PrefixIndex.match`
Segments = list[tuple[int, int]]

_by_end = attrgetter("hi")


def view_segments(path: Sequence[Run], depth: int, column: int, hidden: int) -> Segments:
    """Who holds how much of a path in a view: (mask, blocks), most blocks first, no slot of `hidden`.

    `path` is followed up to `depth`, which lies in its last run. Holders only get fewer on the way down, so a
    segment ends wherever somebody drops out:

        path     |--- run 0 ---|------ run 1 ------|
        slot 0   ══════════════                          (slot 0, run 1's start)
        slot 1   ═══════════════════════                 (slot 1, where its short hold ends)
        slot 2   ══════════════════════════════    depth (slot 2, depth)
    """
    found: Segments = []
    held = 0
    for run in path:
        reached = run.masks[column]
        if run.short:
            held = _pass_short_holds(found, held, run, depth, column)
        elif held != reached:
            if held:
                found.append((held ^ reached, run.start))
            held = reached
    if held:
        found.append((held, depth))
    if hidden:
        found = [(mask & ~hidden, blocks) for mask, blocks in found if mask & ~hidden]
    found.reverse()
    return found


def _pass_short_holds(found: Segments, held: int, run: Run, depth: int, column: int) -> int:
    """Goes through a run in which holds end: adds their segments to `found`, returns who is left."""
    reached = run.masks[column]
    ending = []
    for hold in run.short:
        if hold.residency.column == column:
            reached |= hold.residency.bit
            ending.append(hold)
    if held != reached and held:
        found.append((held ^ reached, run.start))
    if len(ending) > 1:
        ending.sort(key=_by_end)
    for hold in ending:
        if hold.hi < depth:
            found.append((hold.residency.bit, hold.hi))
            reached ^= hold.residency.bit
    return reached
