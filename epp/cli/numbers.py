"""Numbers as flags: what argparse calls to read them, with a sentence for those that are none."""

import argparse
import math
from collections.abc import Callable

__all__ = ["above_zero", "between"]


def between(low: int, high: int) -> Callable[[str], int]:
    """Reads a whole number in these bounds."""

    def read(text: str) -> int:
        if text.isdecimal() and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"must be a number from {low} to {high}, not {text!r}")

    return read


def above_zero(text: str) -> float:
    """Reads a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value
