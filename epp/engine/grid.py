"""Step times from a user's own measurements, in place of those composed from kernels."""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

from epp.engine.latency import StepLoad

__all__ = ["Grid", "GridLatency"]


def _cell(points: tuple[float, ...], value: float) -> tuple[int, int, float]:
    """The points around `value` and how far it is from the first to the second; outside, the nearest two."""
    if len(points) == 1:
        return 0, 0, 0.0
    high = min(max(bisect_right(points, value), 1), len(points) - 1)
    return high - 1, high, (value - points[high - 1]) / (points[high] - points[high - 1])


@dataclass(frozen=True, slots=True)
class Grid:
    """Seconds at points of a plane; linear between them, and beyond them as between the last two.

    Attributes:
        rows, columns: coordinates, ascending.
        seconds: a row of values for each of `rows`.
    """

    rows: tuple[float, ...]
    columns: tuple[float, ...]
    seconds: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        for name, points in (("rows", self.rows), ("columns", self.columns)):
            if not points or any(low >= high for low, high in pairwise(points)) or points[0] < 0:
                raise ValueError(f"{name} must be ascending numbers from 0 on, got {list(points)}")
        if len(self.seconds) != len(self.rows):
            raise ValueError(f"{len(self.rows)} rows need as many rows of times, got {len(self.seconds)}")
        for row, values in zip(self.rows, self.seconds, strict=True):
            if len(values) != len(self.columns):
                raise ValueError(
                    f"the row of {row:g} needs {len(self.columns)} times, one a column, got {len(values)}"
                )
            if not all(value > 0 and math.isfinite(value) for value in values):
                raise ValueError(f"the row of {row:g} has a time that is not positive")

    def at(self, row: float, column: float) -> float:
        """Seconds at a point, never below zero."""
        low, high, share = _cell(self.rows, row)
        left, right, part = _cell(self.columns, column)
        before = self.seconds[low][left] + part * (self.seconds[low][right] - self.seconds[low][left])
        after = self.seconds[high][left] + part * (self.seconds[high][right] - self.seconds[high][left])
        return max(0.0, before + share * (after - before))


@dataclass(frozen=True, slots=True)
class GridLatency:
    """Steps as measured: prefills alone and decodes alone.

    A step with both takes what a prefill of all its tokens takes, and what decodes take more for what they
    attend to than they would for nothing.

    Attributes:
        prefill: by tokens of the step and tokens before them.
        decode: by sequences and tokens that each attends to.
        overhead_s: of a step, beside what was measured.
        factor: every step takes so many times as long.
    """

    prefill: Grid
    decode: Grid
    overhead_s: float = 0.0
    factor: float = 1.0
    link_bytes_per_s: float = 40e9
    link_latency_s: float = 0.005

    def __post_init__(self) -> None:
        if self.link_bytes_per_s <= 0 or self.link_latency_s < 0:
            raise ValueError("the link's bandwidth must be positive, and its latency not negative")

    def step_s(self, load: StepLoad) -> float:
        """Seconds that a step takes."""
        return self.overhead_s + self.factor * self._measured_s(load)

    def _measured_s(self, load: StepLoad) -> float:
        tokens = load.computed_tokens - load.decodes
        if not tokens:
            return self.decode.at(load.decodes, load.decode_context_tokens / load.decodes)
        context = max(0.0, load.prefill_pairs / tokens - tokens / 2)
        prefill_s = self.prefill.at(load.computed_tokens, context)
        if not load.decodes:
            return prefill_s
        attended = load.decode_context_tokens / load.decodes
        return prefill_s + self.decode.at(load.decodes, attended) - self.decode.at(load.decodes, 0.0)

    def load_s(self, size_bytes: int) -> float:
        """Seconds that a transfer of `size_bytes` from the CPU tier takes on an idle link."""
        return self.link_latency_s + size_bytes / self.link_bytes_per_s

    def scaled(self, factor: float) -> "GridLatency":
        """Steps that take `factor` times as long; transfers stay.

        Raises:
            ValueError: the factor is not positive.
        """
        if factor <= 0:
            raise ValueError(f"the factor must be positive, got {factor:g}")
        return replace(self, factor=self.factor * factor, overhead_s=self.overhead_s * factor)

    def with_overhead(self, extra_s: float) -> "GridLatency":
        """Steps that take so much longer."""
        return replace(self, overhead_s=self.overhead_s + extra_s)

    def with_link(self, bytes_per_s: float, latency_s: float | None = None) -> "GridLatency":
        """Another link to the CPU tier."""
        latency_s = self.link_latency_s if latency_s is None else latency_s
        return replace(self, link_bytes_per_s=bytes_per_s, link_latency_s=latency_s)
