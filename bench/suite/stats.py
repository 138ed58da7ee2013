"""Medians, spreads, paired differences and growth."""

import itertools
import math
import statistics
from collections.abc import Sequence

__all__ = ["growth", "median", "paired_differences", "spread"]


def median(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """Half the range in parts of the median: 0.1 says ± 10 %. None where it has no meaning."""
    middle = median(values)
    if not middle or len(values) < 2:
        return None
    return (max(values) - min(values)) / 2 / middle


def paired_differences(values: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Run by run; a run that one of them lacks is left out."""
    return [value - base for value, base in zip(values, baseline, strict=False)]


def growth(points: Sequence[tuple[float, float]]) -> float | None:
    """The largest exponent between neighbours (size, cost): 0 is flat, 1 in proportion, 2 quadratic.

    A cliff between two sizes shows as a large exponent there, though the whole curve may look harmless.
    """
    ordered = sorted(points)
    exponents = [
        math.log(cost / before) / math.log(size / smaller)
        for (smaller, before), (size, cost) in itertools.pairwise(ordered)
        if before > 0 and cost > 0 and size > smaller > 0
    ]
    return max(exponents) if exponents else None
