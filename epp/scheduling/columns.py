"""Columns of scores, how they are added up, and the candidates' slots that they are read by."""

import math
from collections.abc import Callable, Iterator, Sequence
from operator import add, itemgetter
from typing import Any, Final, overload

from epp.endpoints.types import Endpoint
from epp.errors import InternalError

__all__ = ["CandidateSlots", "Column", "SegmentColumn", "add_weighted", "clamped", "contenders"]

Column = Sequence[float]

# A mask with at most this many bits is added bit by bit; wider ones cost a pass over all candidates together.
_FEW_BITS: Final = 16

# To look at this share of the candidates one by one is cheaper than a pass over all.
_FEW_SHARE: Final = 8

# Masks that share a pass. The table of their sums has two to this power entries.
_MASKS_A_PASS: Final = 5


class CandidateSlots:
    """Where the candidates stand in columns and masks that are indexed by slot.

    `read(column)` is the column's items at the candidates' slots, in their order, in one call; `mask` has
    their bits. Candidates are ordered by slot; mostly their slots are one run without gaps, which a slice
    serves.
    """

    __slots__ = ("_first", "_place_of", "candidates", "mask", "read", "width")

    def __init__(self, candidates: tuple[Endpoint, ...]) -> None:
        numbers = [endpoint.slot for endpoint in candidates]
        count = len(numbers)
        first = numbers[0] if numbers else 0
        is_run = numbers == list(range(first, first + count))
        run = itemgetter(slice(first, first + count))
        self.candidates = candidates
        self.read: Callable[[Sequence[Any]], Sequence[Any]] = run if is_run else itemgetter(*numbers)
        self._first = first if is_run else 0
        self._place_of = None if is_run else {number: place for place, number in enumerate(numbers)}
        self.width = max(numbers, default=0) + 1
        self.mask = ((1 << count) - 1) << first if is_run else _mask_of(numbers, self.width)

    def __len__(self) -> int:
        return len(self.candidates)

    def places(self, mask: int) -> list[int]:
        """Places of the candidates whose bits are in `mask`, which must have no other; one step for each."""
        found = []
        mask >>= self._first
        while mask:
            place = mask.bit_length() - 1
            found.append(place)
            mask ^= 1 << place
        return found if self._place_of is None else [self._place_of[slot] for slot in found]


def _mask_of(numbers: Sequence[int], width: int) -> int:
    digits = bytearray(b"0" * width)
    for number in numbers:
        digits[-1 - number] = ord("1")
    return int(digits, 2)


class SegmentColumn(Sequence[float]):
    """A column that is `base` everywhere but where its segments say otherwise. Immutable.

    `segments` are (mask, value): every candidate whose slot's bit is in `mask` has `value`. Masks are
    disjoint; bits of other endpoints are ignored.
    """

    __slots__ = ("base", "segments", "slots")

    def __init__(
        self, slots: CandidateSlots, base: float = 0.0, segments: tuple[tuple[int, float], ...] = ()
    ) -> None:
        self.slots = slots
        self.base = base
        self.segments = segments

    def __len__(self) -> int:
        return len(self.slots.candidates)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        return self._dense()[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self._dense())

    def _dense(self) -> list[float]:
        value_of = {place: value for mask, value in self.segments for place in _places(mask, self.slots)}
        return [value_of.get(place, self.base) for place in range(len(self.slots))]


def _places(mask: int, slots: CandidateSlots) -> Iterator[int]:
    return (place for place, endpoint in enumerate(slots.candidates) if mask >> endpoint.slot & 1)


def clamped(column: Column, length: int) -> Column:
    """The column with every number in [0, 1]: below is 0, above is 1, not a number is 0.

    Raises:
        InternalError: the column does not have `length` numbers.
    """
    if type(column) is SegmentColumn and len(column.slots.candidates) == length:
        if 0.0 <= column.base <= 1.0:
            for _, value in column.segments:
                if not 0.0 <= value <= 1.0:
                    break
            else:
                return column
        segments = tuple([(mask, _clamp(value)) for mask, value in column.segments])
        return SegmentColumn(column.slots, _clamp(column.base), segments)
    if len(column) != length:
        raise InternalError(f"a scorer gave {len(column)} scores for {length} candidates")
    # Only a sum sees every NaN: comparisons with it are false, so minimum and maximum may step over it.
    if math.isnan(sum(column)) or min(column) < 0.0 or max(column) > 1.0:
        return [_clamp(score) for score in column]
    return column


def _clamp(score: float) -> float:
    # A comparison with NaN is false.
    return min(score, 1.0) if score > 0.0 else 0.0


def add_weighted(
    totals: list[float], columns: Sequence[tuple[Column, float]], slots: CandidateSlots
) -> list[float]:
    """A list of totals plus the sum of column * weight; `totals` itself stays as it is."""
    base = 0.0
    change_of: dict[int, float] = {}  # by mask
    for column, weight in columns:
        if type(column) is SegmentColumn:
            level = column.base
            base += weight * level
            for mask, value in column.segments:
                change_of[mask] = change_of.get(mask, 0.0) + weight * (value - level)
        else:
            totals = [total + weight * score for total, score in zip(totals, column, strict=True)]
    if base:
        totals = [total + base for total in totals]
    if not change_of:
        return totals
    totals = totals.copy()
    many: list[tuple[int, float]] = []
    for any_mask, change in change_of.items():
        mask = any_mask & slots.mask
        if mask.bit_count() <= _FEW_BITS:
            for place in slots.places(mask):
                totals[place] += change
        else:
            many.append((mask, change))
    return _add_at_masks(totals, many, slots) if many else totals


def _add_at_masks(
    totals: list[float], many: Sequence[tuple[int, float]], slots: CandidateSlots
) -> list[float]:
    """A list with each change added at the candidates of its mask."""
    for start in range(0, len(many), _MASKS_A_PASS):
        changes = _changes(many[start : start + _MASKS_A_PASS], slots)
        totals = list(map(add, totals, changes))
    return totals


def _changes(masks: Sequence[tuple[int, float]], slots: CandidateSlots) -> Iterator[float]:
    """For each candidate the sum of the changes of the masks it is in.

    Written as digits of base 256 a mask is a column of bytes; shifted by its number in the pass and added to
    the others', each byte tells which masks an endpoint is in, and indexes the table of all sums.
    """
    sums = [0.0]
    column = 0
    zeros = int.from_bytes(b"0" * slots.width)
    for number, (mask, change) in enumerate(masks):
        column += (int.from_bytes(f"{mask:0{slots.width}b}".encode()) - zeros) << number
        sums += [total + change for total in sums]
    return map(sums.__getitem__, slots.read(column.to_bytes(slots.width, "little")))


def contenders(
    leaders: list[int], columns: Sequence[tuple[Column, float]], slots: CandidateSlots
) -> Sequence[int] | None:
    """Places where the best totals can be once `columns` are added, in order; None where that is not known.

    `leaders` are those before, in order. Numbers of the columns are not negative, and where a base is 0 only
    totals in the masks rise: the best is one of those, or it was one before.
    """
    raised = 0
    for column, _ in columns:
        if type(column) is not SegmentColumn or column.base:
            return None
        for mask, _ in column.segments:
            raised |= mask
    raised &= slots.mask
    if raised.bit_count() * _FEW_SHARE > len(slots.candidates):
        return None
    return sorted({*leaders, *slots.places(raised)}) if raised else leaders
