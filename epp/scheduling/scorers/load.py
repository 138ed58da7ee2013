"""What the scorers of scraped load share: reading a metric, and the rule for endpoints without one.

Missing-data rule: an endpoint whose scrape is stale or never came, or whose page does not give a usable
number (absent, negative, NaN, infinite), gets min(0.5, the worst score of an endpoint that has one) and takes
no part in minimum and maximum. When no candidate has a number, all get 0.5. So it is never ahead of an
endpoint that is known, and still gets its share when nothing is known.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from epp.endpoints.types import Endpoint, EndpointMetrics

__all__ = ["NEUTRAL", "fill_missing", "inverse_min_max", "read_metric"]

NEUTRAL: Final = 0.5

Read = Callable[[EndpointMetrics], float | None]


def read_metric(candidates: Sequence[Endpoint], read: Read) -> list[float | None]:
    """One number a candidate; None where there is no fresh and usable one."""
    return [_usable(read(e.metrics)) if e.fresh and e.metrics is not None else None for e in candidates]


def _usable(value: float | None) -> float | None:
    # The comparison is false for NaN, too.
    return value if value is not None and 0.0 <= value < math.inf else None


def inverse_min_max(values: Sequence[float | None]) -> list[float]:
    """(max - v) / (max - min) over the numbers there are; 1.0 for each when all are equal."""
    present = [value for value in values if value is not None]
    high, low = max(present, default=0.0), min(present, default=0.0)
    if high == low:
        return fill_missing([None if value is None else 1.0 for value in values])
    span = high - low
    return fill_missing([None if value is None else (high - value) / span for value in values])


def fill_missing(scores: Sequence[float | None]) -> list[float]:
    """Scores with the missing ones filled by the rule of this module."""
    present = [score for score in scores if score is not None]
    if len(present) == len(scores):
        return present
    missing = min(NEUTRAL, min(present, default=NEUTRAL))
    return [missing if score is None else score for score in scores]
