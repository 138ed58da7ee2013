"""What metrics are kept in: histograms, label caps, and families with their twins.

Own stores instead of the client library's, for two reasons: a family and its twin under an older name must be
rendered from one value, and an observation must cost a fraction of a microsecond, since a request makes some
twenty of them.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["OTHER", "Family", "Histogram", "LabelCap", "Twin", "twin"]

OTHER: Final = "other"

_LONGEST_LABEL: Final = 256  # characters; longer names come from clients that play games


class Histogram:
    """Observations by bucket. `counts` has one more entry than `bounds`: what is above the last of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(
        self, bounds: tuple[float, ...], counts: list[int] | None = None, total: float = 0.0
    ) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1) if counts is None else counts
        self.sum = total

    def observe(self, values: Sequence[float]) -> None:
        """Count values; many at once cost a fifth. A bound belongs to its bucket."""
        counts, bounds, done = self.counts, self.bounds, 0
        ordered = sorted(values)
        while done < len(ordered):  # a bucket at a time
            place = bisect_left(bounds, ordered[done])
            up_to = bisect_right(ordered, bounds[place], done) if place < len(bounds) else len(ordered)
            counts[place] += up_to - done
            done = up_to
        self.sum = sum(values, self.sum)

    def coarser(self, bounds: tuple[float, ...]) -> "Histogram":
        """The same observations with fewer bounds, each of which must be one of this histogram's."""
        counts = [0] * (len(bounds) + 1)
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            counts[bisect_left(bounds, bound)] += count
        return Histogram(bounds, counts, self.sum)

    def merged(self, other: "Histogram") -> "Histogram":
        """A histogram of the observations of both, which must have the same bounds."""
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Histogram(self.bounds, counts, self.sum + other.sum)


class LabelCap:
    """Bounds the values of a label that clients choose: beyond `limit` of them it is `other`.

    Values that `known` accepts (models of the pool) always stand for themselves, and count towards the limit.
    """

    def __init__(self, limit: int, known: Callable[[str], bool] = lambda _: False) -> None:
        self._limit = limit
        self._known = known
        self._seen: set[str] = set()

    def label(self, value: str) -> str:
        """The label to use for `value`."""
        if value in self._seen:
            return value
        if len(value) > _LONGEST_LABEL or not (len(self._seen) < self._limit or self._known(value)):
            return OTHER
        self._seen.add(value)
        return value


@dataclass(frozen=True, slots=True)
class Twin:
    """An older name of a family, with what its labels were called: twin's label → family's label."""

    name: str
    labels: Mapping[str, str]


def twin(name: str, *labels: str) -> Twin:
    """A twin whose labels have the family's names, though it may have fewer."""
    return Twin(name, {label: label for label in labels})


@dataclass(frozen=True, slots=True)
class Family:
    """A metric as scrapers see it."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    twin: Twin | None = None
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = (self.name,) if self.twin is None else (self.name, self.twin.name)
        object.__setattr__(self, "names", names)
