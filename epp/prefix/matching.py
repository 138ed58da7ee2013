"""From a walked path to the segments that a match reports."""

from collections.abc import Sequence
from operator import attrgetter

from epp.prefix.tree import Run

__all__ = ["Segments", "view_segments"]

Segments = list[tuple[int, int]]

_by_end = attrgetter("hi")


def view_segments(path: Sequence[Run], depth: int, view: int, hidden: int) -> Segments:
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
        reached = run.masks[view]
        ends = [hold for hold in run.short if hold.residency.view == view] if run.short else ()
        for hold in ends:
            reached |= hold.residency.bit
        if held != reached and held:
            found.append((held ^ reached, run.start))
        held = reached
        for hold in sorted(ends, key=_by_end):
            if hold.hi < depth:
                found.append((hold.residency.bit, hold.hi))
                held ^= hold.residency.bit
    if held:
        found.append((held, depth))
    if hidden:
        found = [(mask & ~hidden, blocks) for mask, blocks in found if mask & ~hidden]
    found.reverse()
    return found
