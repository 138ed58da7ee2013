"""Checks that an index agrees with itself: for tests, and for whoever doubts it. They visit everything."""

from collections.abc import Collection, Iterator
from typing import cast

from epp.prefix.residency import Bookmark, Link, Occupancy, Residency
from epp.prefix.runs import Hold, Run
from epp.prefix.tree import MAX_SHORT, SHARD_SHIFT, BlockTree

__all__ = ["check_index"]


def check_index(
    tree: BlockTree, residencies: Collection[Residency], excessive: Collection[Residency]
) -> None:
    """Checks the tree's shape, every LRU list, and that masks and lists say the same.

    `residencies` are all of them, dropped ones too while they are not swept; `excessive` those known to be
    beyond their capacity.

    Raises:
        ValueError: naming the first rule that is broken, and where.
    """
    runs = _check_table(tree)
    for run in runs:
        _check_run(run)
    bits = sum(mask.bit_count() for run in runs for mask in run.masks)
    covered = sum(_check_residency(residency, excessive) for residency in residencies)
    _require(bits == covered, f"masks name {bits} holders of runs, LRU lists {covered}")
    _check_walked(tree)


def _check_table(tree: BlockTree) -> list[Run]:
    """Checks that the table has every run where it belongs, and returns them."""
    runs = [run for shard in tree.shards for run in shard.values()]
    _require(len(runs) == tree.runs, f"{tree.runs} runs counted, {len(runs)} found")
    children = dict.fromkeys(runs, 0)
    for number, shard in enumerate(tree.shards):
        for first, run in shard.items():
            _require(
                first == run.hashes[0] and first >> SHARD_SHIFT == number, f"{_name(run)} is in a wrong place"
            )
            if run.parent is not None:
                _require(run.parent in children, f"the parent of {_name(run)} is not in the table")
                children[run.parent] += 1
    for run, count in children.items():
        _require(run.children == count, f"{_name(run)} has {count} children, not {run.children}")
    return runs


def _check_walked(tree: BlockTree) -> None:
    """Checks that what is known of the last walk is what another one finds."""
    known = tree.walked
    found = tree.walk(list(known[0]))
    tree.walked = known
    _require(found == known[1:], "the last walk would end elsewhere now")


def _check_run(run: Run) -> None:
    name = _name(run)
    _require(len(run.hashes) == run.end - run.start > 0, f"{name} has {len(run.hashes)} hashes")
    _require(run.last == run.hashes[-1], f"{name} has another last hash")
    _require(any(run.masks), f"{name} is held in full by nobody")
    short = [hold for hold in run.holds.values() if hold.hi < run.end]
    _require(set(short) == set(run.short), f"{name} does not know its short holds")
    _require(len(short) == len(run.short) <= MAX_SHORT, f"{name} has too many short holds")
    held = list(run.masks)
    for residency, hold in run.holds.items():
        _require(hold.run is run and hold.residency is residency, f"{name} has a hold of another run")
        full = run.masks[residency.column] & residency.bit != 0
        _require(full == (hold.hi == run.end), f"a mask of {name} is wrong about slot {residency.slot}")
        held[residency.column] |= residency.bit
    above = run.parent
    _require((above.end if above else 0) == run.start, f"{name} does not begin where its parent ends")
    for column, mask in enumerate(held):
        held_above = above.masks[column] if above and column < len(above.masks) else 0
        _require(not above or not mask & ~held_above, f"{name} is held without its parent")


def _check_residency(residency: Residency, excessive: Collection[Residency]) -> int:
    """Checks one LRU list and returns how many runs its holds cover in full."""
    name = f"slot {residency.slot} of column {residency.column}"
    ages: dict[Run, int] = {}
    full = blocks = tokens = 0
    for age, entry in enumerate(_entries(residency)):
        if isinstance(entry, Bookmark):
            continue
        if isinstance(entry, Occupancy):
            _require(entry.tokens > 0 and entry.residency is residency, f"{name} has a void occupancy")
            tokens += entry.tokens
            continue
        hold = cast("Hold", entry)
        blocks += hold.hi - hold.lo
        tokens += (hold.hi - hold.lo) * hold.run.weight
        pieces = _pieces(hold, name)
        ages |= dict.fromkeys(pieces, age)
        full += len(pieces) - (hold.hi < hold.run.end)
    _require(residency.blocks == blocks, f"{name} counts {residency.blocks} blocks and holds {blocks}")
    _require(residency.tokens == tokens, f"{name} counts {residency.tokens} tokens and holds {tokens}")
    fits = tokens <= residency.capacity_tokens or residency in excessive
    _require(fits, f"{name} is beyond its capacity and will not be swept")
    for run, age in ages.items():
        heads_last = run.parent is None or ages.get(run.parent, -1) >= age
        _require(heads_last, f"{name} would evict the parent of {_name(run)} first")
    return full


def _entries(residency: Residency) -> Iterator[Link]:
    entry = residency.newer
    while entry is not residency:
        _require(entry.newer.older is entry and entry.older.newer is entry, "an LRU list is torn")
        yield entry
        entry = entry.newer


def _pieces(hold: Hold, name: str) -> list[Run]:
    """The runs that a hold covers, from the one where it ends upwards."""
    run, residency = hold.run, hold.residency
    _require(run.holds.get(residency) is hold, f"{name} has a hold that {_name(run)} does not know")
    _require(hold.lo <= run.start < hold.hi <= run.end, f"{name} has a hold of [{hold.lo}, {hold.hi})")
    pieces = [run]
    while run.parent is not None and hold.lo < run.start:
        above = run.parent
        joined = above.lower is run and above.weight == run.weight and residency not in above.holds
        held = above.masks[residency.column] & residency.bit != 0
        _require(joined and held, f"{name} has a hold that does not reach {_name(above)}")
        pieces.append(above)
        run = above
    _require(run.start == hold.lo, f"{name} has a hold that begins inside {_name(run)}")
    return pieces


def _name(run: Run) -> str:
    return f"the run of blocks [{run.start}, {run.end})"


def _require(rule: bool, broken: str) -> None:
    if not rule:
        raise ValueError(f"prefix index: {broken}")
