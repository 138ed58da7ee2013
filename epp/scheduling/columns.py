"""Columns of scores, and the candidates' slots that they are read by."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import itemgetter
from typing import Any, overload

from epp.endpoints.types import Endpoint
from epp.errors import InternalError

__all__ = ["CandidateSlots", "Column", "SegmentColumn", "add_weighted", "clamped"]

Column = Sequence[float]

# ASCII digits of a binary number to the selectors that `compress` takes.
_SELECTORS = bytes(code == ord("1") for code in range(256))

# Up to this many bits of a mask are taken out one by one; above it, expanding the whole mask is cheaper.
_FEW_BITS = 12


@dataclass(frozen=True, slots=True, eq=False)
class SegmentColumn(Sequence[float]):
    """A column that is `base` everywhere but at the places of its segments.

    `segments` are (places, value): every candidate at an index in `places` has `value`. Places are disjoint.
    """

    length: int
    base: float = 0.0
    segments: tuple[tuple[Sequence[int], float], ...] = ()

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        """The number at `index`, or a list of the numbers in a slice."""
        return self.dense()[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self.dense())

    def dense(self) -> list[float]:
        """All numbers as a list."""
        column = [self.base] * self.length
        for places, value in self.segments:
            for place in places:
                column[place] = value
        return column


class CandidateSlots:
    """Where the candidates stand in columns and masks that are indexed by slot.

    `read(column)` is the column's items at the candidates' slots, in their order, in one call.
    """

    __slots__ = ("_mask", "_place", "_width", "candidates", "read")

    def __init__(self, candidates: tuple[Endpoint, ...]) -> None:
        numbers = [endpoint.slot for endpoint in candidates]
        self.candidates = candidates
        self._place = dict(zip(numbers, range(len(numbers)), strict=True))
        self._width = max(numbers, default=-1) + 1
        self._mask = sum(map(int.__lshift__, repeat(1), numbers))
        self.read = _reader(numbers)

    def places(self, mask: int) -> Sequence[int]:
        """Indices of the candidates whose slot's bit is set in `mask`, in no particular order."""
        mask &= self._mask
        if mask == self._mask:
            return range(len(self.candidates))
        if mask.bit_count() <= _FEW_BITS:
            return self._places_bit_by_bit(mask)
        selectors = f"{mask:0{self._width}b}"[::-1].encode().translate(_SELECTORS)
        return list(compress(range(len(self.candidates)), self.read(selectors)))

    def _places_bit_by_bit(self, mask: int) -> list[int]:
        found = []
        while mask:
            slot = mask.bit_length() - 1
            found.append(self._place[slot])
            mask ^= 1 << slot
        return found


def _reader(numbers: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Slots in one run are a slice, which copies faster than single items do."""
    if not numbers:
        return itemgetter(slice(0, 0))
    first, count = numbers[0], len(numbers)
    if numbers == list(range(first, first + count)):
        return itemgetter(slice(first, first + count))
    return itemgetter(*numbers)


def clamped(column: Column, length: int) -> Column:
    """The column with every number in [0, 1]: below is 0, above is 1, not a number is 0.

    Raises:
        InternalError: the column does not have `length` numbers.
    """
    if len(column) != length:
        raise InternalError(f"a scorer gave {len(column)} scores for {length} candidates")
    if isinstance(column, SegmentColumn):
        segments = tuple((places, _clamp(value)) for places, value in column.segments)
        return SegmentColumn(length, _clamp(column.base), segments)
    # Only a sum sees every NaN: comparisons with it are false, so minimum and maximum may step over it.
    if math.isnan(sum(column)) or min(column) < 0.0 or max(column) > 1.0:
        return [_clamp(score) for score in column]
    return column


def _clamp(score: float) -> float:
    # A comparison with NaN is false.
    return min(score, 1.0) if score > 0.0 else 0.0


def add_weighted(totals: list[float], column: Column, weight: float) -> list[float]:
    """A new list: totals + weight * column."""
    if not isinstance(column, SegmentColumn):
        return [total + weight * score for total, score in zip(totals, column, strict=True)]
    base = weight * column.base
    added = [total + base for total in totals] if base else totals.copy()
    for places, value in column.segments:
        change = weight * (value - column.base)
        for place in places:
            added[place] += change
    return added
