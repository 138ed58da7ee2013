"""What a touch does to the holds of one residency, and what it adds."""

from collections.abc import Sequence
from typing import Final

import msgspec

from epp.prefix.residency import Residency
from epp.prefix.runs import Hold, Run
from epp.prefix.tree import BlockTree

__all__ = ["Touch", "refresh"]

_BELOW_ALL: Final = 1 << 62  # deeper than any path


class Touch(msgspec.Struct, eq=False):
    """What one call of `PrefixIndex.touch` added: for `undo`.

    The blocks added are the end of the path, from `added_from` on, since what was held before was held from
    its start. `holds` are those that grew, deepest first.
    """

    stamp: int
    added_from: int = 0
    holds: list[Hold] = []


def refresh(tree: BlockTree, residency: Residency, path: Sequence[Run], touch: Touch) -> None:
    """Makes `residency` hold the whole path; holds become newest deepest first, so the head is newest."""
    covered = _BELOW_ALL
    for run in reversed(path):
        if run.start < covered:  # else the hold of a piece below reaches up to here
            hold = run.holds.get(residency)
            if hold is None:
                hold = tree.take(residency, run)
            else:
                residency.make_newest(hold)
            if hold.hi < run.end:
                touch.added_from = hold.hi
                touch.holds.append(hold)
                tree.fill(hold)
            hold.stamp = touch.stamp
            covered = hold.lo
