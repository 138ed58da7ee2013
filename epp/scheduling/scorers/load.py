"""What the scorers of scraped load share: reading a metric, and the rule for endpoints without one.

Missing-data rule: an endpoint whose scrape is stale or never came, or whose page does not give a usable
number (absent, negative, NaN, infinite), gets min(0.5, the worst score of an endpoint that has one) and takes
no part in minimum and maximum. When no candidate has a number, all get 0.5. So it is never ahead of an
endpoint that is known, and still gets its share when nothing is known.
"""

import math
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter, is_not
from typing import Final, cast

from epp.endpoints.types import Endpoint

__all__ = ["NEUTRAL", "MetricReader", "fill_missing", "inverse_min_max", "known"]

NEUTRAL: Final = 0.5


class MetricReader:
    """Reads one field of `EndpointMetrics` of each candidate.

    Endpoints are immutable, so only those are read that were not at the same place last time: between two
    scrapes of a large fleet most are the same objects.
    """

    __slots__ = ("_candidates", "_read", "_values")

    def __init__(self, field: str) -> None:
        self._read = attrgetter(field)
        self._candidates: tuple[Endpoint, ...] = ()
        self._values: list[float | None] = []

    def read(self, candidates: tuple[Endpoint, ...]) -> Sequence[float | None]:
        """One number a candidate, None where there is no fresh and usable one; valid until the next call."""
        if len(candidates) != len(self._candidates):
            self._values = [self._one(endpoint) for endpoint in candidates]
        else:
            changed = map(is_not, candidates, self._candidates)
            for place in compress(range(len(candidates)), changed):
                self._values[place] = self._one(candidates[place])
        self._candidates = candidates
        return self._values

    def _one(self, endpoint: Endpoint) -> float | None:
        if not endpoint.fresh or endpoint.metrics is None:
            return None
        value: float | None = self._read(endpoint.metrics)
        # The comparison is false for NaN, too.
        return value if value is not None and 0.0 <= value < math.inf else None


def inverse_min_max(values: Sequence[float | None]) -> list[float]:
    """(max - v) / (max - min) over the numbers there are; 1.0 for each when all are equal."""
    present = known(values)
    high, low = max(present, default=0.0), min(present, default=0.0)
    span = high - low
    scores = [(high - value) / span for value in present] if span else [1.0] * len(present)
    return fill_missing(values, scores)


def known(values: Sequence[float | None]) -> Sequence[float]:
    """The numbers there are."""
    if None not in values:
        return cast("Sequence[float]", values)
    return [value for value in values if value is not None]


def fill_missing(values: Sequence[float | None], scores: list[float]) -> list[float]:
    """`scores`, one for each number in `values`, with the missing ones put between by the rule above."""
    if len(scores) == len(values):
        return scores
    missing = min(NEUTRAL, min(scores, default=NEUTRAL))
    there = iter(scores)
    return [missing if value is None else next(there) for value in values]
