"""What the scorers of scraped load share: the rule for endpoints without a number.

Missing-data rule: an endpoint whose scrape is stale or never came, or whose page does not give a usable
number (absent, negative, NaN, infinite), gets min(0.5, the worst score of an endpoint that has one) and takes
no part in minimum and maximum. When no candidate has a number, all get 0.5. So it is never ahead of an
endpoint that is known, and still gets its share when nothing is known.
"""

from collections.abc import Sequence
from typing import Final, cast

__all__ = ["NEUTRAL", "fill_missing", "inverse_min_max", "known"]

NEUTRAL: Final = 0.5


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
