"""Work in steps, between which others have their turn."""

from collections.abc import Generator
from typing import TypeVar

__all__ = ["result_of"]

_Result = TypeVar("_Result")


def result_of(steps: Generator[None, None, _Result]) -> _Result:
    """Do all the work at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _Result = done.value
            return result
