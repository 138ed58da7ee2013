"""Reads a scraped number of every candidate."""

import math
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter, is_not

from epp.endpoints.types import Endpoint

__all__ = ["MetricReader"]


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
