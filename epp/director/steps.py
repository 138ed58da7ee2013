"""Work in steps, between which others have their turn."""

from collections.abc import Callable, Generator
from typing import TypeVar

from epp.director.exchange import Exchange

__all__ = ["next_or_result", "timed"]

Result = TypeVar("Result")


def next_or_result(steps: Generator[None, None, Result]) -> Result | None:
    """Drive `steps` to its next pause (None) or to its end."""
    try:
        next(steps)
    except StopIteration as done:
        result: Result = done.value
        return result
    return None


def timed(
    exchange: Exchange, steps: Generator[None, None, Result], timer: Callable[[], float]
) -> Generator[None, None, Result]:
    """Drive `steps`; their time, without that of their pauses, is added to the request's."""
    started = timer()
    while (result := next_or_result(steps)) is None:
        exchange.prepare_s += timer() - started
        yield
        started = timer()
    exchange.prepare_s += timer() - started
    return result
