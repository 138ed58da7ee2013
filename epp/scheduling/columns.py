"""Columns of scores, and the candidates' slots that they are read by."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import itemgetter
from typing import Any, overload

from epp.endpoints.types import Endpoint

__all__ = ["CandidateSlots", "Column", "SegmentColumn"]

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
