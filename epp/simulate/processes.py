"""Independent runs side by side."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

__all__ = ["in_processes"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def in_processes(work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int) -> Iterator[_Result]:
    """`work` of each task, in their order; with one job in this process."""
    if jobs == 1 or len(tasks) == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, tasks)
