"""Parts of an index as flat arrays, taken while it works and put into another one, in short steps.

A save has one `RunTable`, in which the runs of all lists stand once, and one `Entries` for each list that an
endpoint has in a view. `Entries` are in the order of age, oldest first: the number of a run with the blocks
held from the start of the prompt, or -1 with the tokens of what has no prefix.

A list changes while it is read. A bookmark keeps the place in it; an entry that is used again meanwhile is
met a second time, at the newest end, where it belongs then.
"""

from array import array
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final, cast

from epp.prefix.index import PrefixIndex
from epp.prefix.residency import Bookmark, Link, Occupancy, Residency
from epp.prefix.runs import Hold, Run
from epp.prefix.tree import SHARD_SHIFT

__all__ = ["Entries", "RunTable", "entries_of", "restore_entries"]

_NO_RUN: Final = -1
_STEP: Final = 64  # entries and runs that are read in one step: a tenth of a millisecond
_STEP_RUNS: Final = 4  # that are put back in one step, 10 to 40 µs each
_BLOCKS_A_RUN: Final = 512  # so many blocks cost as much as a run
_CHUNK: Final = 1 << 13  # hashes; an array of megabytes stalls for milliseconds when it grows


def _numbers() -> "array[int]":
    return array("q")


def _hashes() -> "array[int]":
    return array("Q")


def _chunks() -> "list[array[int]]":
    return [_hashes()]


@dataclass(slots=True)
class RunTable:
    """Runs by number. `parents`: the run before it, -1 at the root; `ends`: depth behind its last block.

    `hashes` are those of all runs, one after the other, in pieces.
    """

    parents: "array[int]" = field(default_factory=_numbers)
    weights: "array[int]" = field(default_factory=_numbers)
    ends: "array[int]" = field(default_factory=_numbers)
    hashes: "list[array[int]]" = field(default_factory=_chunks)
    # By a run's last hash, which stands for its whole path; in shards, since a large dictionary stalls when
    # it grows.
    _known: list[dict[int, int]] = field(
        default_factory=lambda: [{} for _ in range(1 << (64 - SHARD_SHIFT))], repr=False
    )
    _places: "array[int]" = field(default_factory=_numbers, repr=False)
    _all: "array[int]" = field(default_factory=_hashes, repr=False)

    def number(self, run: Run) -> int:
        """The number of `run`; it and the runs before it are entered when they are met for the first time."""
        unknown: list[Run] = []
        above: Run | None = run
        number = _NO_RUN
        while above is not None:
            known = self._known[above.last >> SHARD_SHIFT].get(above.last)
            if known is not None:
                number = known
                break
            unknown.append(above)
            above = above.parent
        for new in reversed(unknown):
            number = self._enter(new, number)
        return number

    def _enter(self, run: Run, parent: int) -> int:
        number = self._known[run.last >> SHARD_SHIFT][run.last] = len(self.parents)
        self.parents.append(parent)
        self.weights.append(run.weight)
        self.ends.append(run.end)
        if len(self.hashes[-1]) > _CHUNK:
            self.hashes.append(_hashes())
        self.hashes[-1].extend(run.hashes)
        return number

    def path(self, number: int) -> list[int]:
        """The numbers from the root to this one.

        Raises:
            ValueError: one of them is not in the table, or stands before its parent.
        """
        path: list[int] = []
        while number != _NO_RUN:
            if not 0 <= number < len(self.parents) or not _NO_RUN <= self.parents[number] < number:
                raise ValueError(f"run {number} is not in the table, or stands before its parent")
            path.append(number)
            number = self.parents[number]
        return path[::-1]

    def start(self, number: int) -> int:
        """Depth at which a run begins."""
        parent = self.parents[number]
        return 0 if parent == _NO_RUN else self.ends[parent]

    def place_all(self) -> Generator[None, None, None]:
        """Find where the hashes of each run begin; to be driven to its end before `chain` is used.

        Raises:
            ValueError: lengths, parents and hashes do not agree.
        """
        self._places, place = _numbers(), 0
        if not len(self.parents) == len(self.weights) == len(self.ends):
            raise ValueError("the table's columns differ in length")
        for number, parent in enumerate(self.parents):
            if not _NO_RUN <= parent < number or self.weights[number] < 1:
                raise ValueError(f"run {number} has a wrong parent or weight")
            blocks = self.ends[number] - self.start(number)
            if blocks < 1:
                raise ValueError(f"run {number} has {blocks} blocks")
            self._places.append(place)
            place += blocks
            if not number % (8 * _STEP):
                yield
        self._all = self.hashes[0] if len(self.hashes) == 1 else _joined(self.hashes)
        if place != len(self._all):
            raise ValueError(f"runs have {place} blocks, the table {len(self._all)} hashes")

    def chain(self, path: list[int]) -> "array[int]":
        """The hashes of a path, first block first."""
        chain = _hashes()
        for number in path:
            place = self._places[number]
            chain.extend(self._all[place : place + self.ends[number] - self.start(number)])
        return chain


def _joined(chunks: "list[array[int]]") -> "array[int]":
    whole = _hashes()
    for chunk in chunks:
        whole.extend(chunk)
    return whole


@dataclass(slots=True)
class Entries:
    """What one endpoint holds in one view, oldest first."""

    runs: "array[int]" = field(default_factory=_numbers)
    amounts: "array[int]" = field(default_factory=_numbers)

    def add(self, entry: Link, table: RunTable) -> int:
        """Enter one; what it cost, in entries."""
        before = len(table.parents)
        if isinstance(entry, Occupancy):
            self.runs.append(_NO_RUN)
            self.amounts.append(entry.tokens)
        else:
            hold = cast("Hold", entry)
            self.runs.append(table.number(hold.run))
            self.amounts.append(hold.hi)
        return 1 + len(table.parents) - before


def entries_of(residency: Residency, table: RunTable) -> Generator[None, None, Entries | None]:
    """Read a list in short steps, between which the index may be used; None if it was dropped meanwhile."""
    found, mark = Entries(), Bookmark()
    residency.insert(mark, residency)
    try:
        while residency.open:
            entry = residency.newer if mark.lost else mark.newer
            cost, last = 0, entry.older
            while entry is not residency and cost < _STEP:
                cost += found.add(entry, table)
                last, entry = entry, entry.newer
            if entry is residency:
                return found
            if not mark.lost:
                mark.unlink()
            residency.insert(mark, last)
            yield
        return None
    finally:
        if not mark.lost:
            mark.unlink()


def restore_entries(
    index: PrefixIndex, view: int, slot: int, entries: Entries, table: RunTable
) -> Generator[None, None, None]:
    """Make `slot` hold what `entries` say, as the most recently used; yields between short steps.

    What `slot` held before stays, as older; what is beyond its capacity is evicted, oldest first.

    Raises:
        ValueError: the entries do not fit the table.
    """
    cost, covered = 0, _Covered()
    for number, amount in zip(entries.runs, entries.amounts, strict=True):
        if number == _NO_RUN:
            index.occupy(view, slot, amount)
            covered, cost = _Covered(), cost + 1
        elif not covered.holds(number, amount):
            path = table.path(number)
            if not 0 < amount <= table.ends[number]:
                raise ValueError(f"an entry has {amount} blocks of run {number}")
            cost += _touch(index, view, slot, table, path, amount)
            covered = _Covered(frozenset(path), amount)
        if cost >= _STEP_RUNS:
            cost = 0
            yield


@dataclass(frozen=True, slots=True)
class _Covered:
    """The path of the entry before: what it passes through needs no touch of its own right behind it."""

    path: frozenset[int] = frozenset()
    blocks: int = 0

    def holds(self, number: int, blocks: int) -> bool:
        return number in self.path and blocks <= self.blocks


def _touch(index: PrefixIndex, view: int, slot: int, table: RunTable, path: list[int], blocks: int) -> int:
    """Touch the first `blocks` of a path, so that each of its runs gets its own weight; what it cost."""
    chain = table.chain(path)[:blocks]
    touches = 0
    for place, number in enumerate(path):
        end, weight = min(table.ends[number], blocks), table.weights[number]
        last = place + 1 == len(path)
        if last or table.weights[path[place + 1]] != weight:
            index.touch(view, slot, chain if last else chain[:end], weight)
            touches += 1
    return touches + len(path) // 4 + len(chain) // _BLOCKS_A_RUN
