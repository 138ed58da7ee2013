"""Chains of hashes without what they share with earlier ones: prompts that begin alike do for the most part.

Writer and reader remember the same chains, by the same rule: the last two million hashes of them.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from epp.recording.events import Folded

__all__ = ["Folder", "Unfolder"]

_MOST_HASHES: Final = 2_000_000
_STRIDE: Final = 16
_NONE: Final = array("Q")


class _Memory:
    """Chains by number."""

    def __init__(self, most_hashes: int = _MOST_HASHES) -> None:
        self._most = most_hashes
        self._chains: OrderedDict[int, array[int]] = OrderedDict()
        self._hashes = 0
        self._next = 0

    def _keep(self, chain: "array[int]") -> int:
        number = self._next
        self._next += 1
        self._chains[number] = chain
        self._hashes += len(chain)
        while self._hashes > self._most:
            oldest, gone = self._chains.popitem(last=False)
            self._hashes -= len(gone)
            self._forget(oldest, gone)
        return number

    def _forget(self, number: int, chain: "array[int]") -> None:
        """A chain is not remembered any more."""


class Folder(_Memory):
    """The writer's side."""

    def __init__(self, most_hashes: int = _MOST_HASHES) -> None:
        super().__init__(most_hashes)
        # Which chain had a hash last, of the first and each sixteenth: a hash stands for all before it.
        self._marks: dict[int, int] = {}

    def fold(self, hashes: Sequence[int]) -> Folded:
        """The chain, as little of it as has to be said."""
        chain = array("Q", hashes)
        like, common = self._longest(chain)
        number = self._keep(chain)
        if number in self._chains:
            self._marks.update(dict.fromkeys(chain[::_STRIDE], number))
        return Folded(like, common, chain[common:].tobytes())

    def _longest(self, chain: "array[int]") -> tuple[int, int]:
        """An earlier chain, and how many hashes it begins with like this one."""
        for place in range((len(chain) - 1) // _STRIDE * _STRIDE, -1, -_STRIDE):
            number = self._marks.get(chain[place]) if chain else None
            if number is not None and self._chains[number][place : place + 1] == chain[place : place + 1]:
                return number, _common(chain, self._chains[number], place + 1)
        return 0, 0

    def _forget(self, number: int, chain: "array[int]") -> None:
        for mark in chain[::_STRIDE]:
            if self._marks.get(mark) == number:
                del self._marks[mark]


class Unfolder(_Memory):
    """The reader's side."""

    def unfold(self, folded: Folded) -> list[int]:
        """The whole chain.

        Raises:
            ValueError: it is said to be like one that there is not.
        """
        like = self._chains.get(folded.like, _NONE)
        if len(like) < folded.common:
            raise ValueError(f"a chain begins like chain {folded.like}, which is not on record")
        chain = like[: folded.common]
        chain.frombytes(folded.rest)
        self._keep(chain)
        return chain.tolist()


def _common(one: "array[int]", other: "array[int]", known: int) -> int:
    """How far both are equal, given that the first `known` are; at most a stride is looked at."""
    end = min(len(one), len(other))
    while known < end and one[known] == other[known]:
        known += 1
    return known
