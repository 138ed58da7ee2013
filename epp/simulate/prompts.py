"""Prompts without text: identities of prefixes, from which block keys are made.

A prompt is a list of segments. A segment's identity stands for everything up to its end, so two prompts share
a prefix exactly as far as they begin with the same segments. The router's hashes and the engine's keys are
derived apart from each other, each in its own block size.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["KeyMaker", "Segment", "identity"]

_MASK: Final = (1 << 64) - 1
_STRIDE: Final = 0x9E3779B97F4A7C15  # odd, and spread over all bits


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens up to `end` (exclusive, from the prompt's start) that `identity` names, all before included."""

    identity: int
    end: int


def identity(*parts: object) -> int:
    """A 64-bit name of what `parts` say, the same in every process."""
    text = "\x00".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class KeyMaker:
    """Keys of full blocks of one size; what segments have in common is computed once.

    Two makers of different `name` give unrelated keys.
    """

    def __init__(self, name: str, block_tokens: int, max_blocks: int | None = None) -> None:
        self.block_tokens = block_tokens
        self._salt = identity(name)
        self._max_blocks = max_blocks
        self._known: dict[tuple[int, int, int], list[int]] = {}

    def keys(self, segments: Sequence[Segment]) -> list[int]:
        """One key for each full block: it belongs to the segment in which the block ends."""
        keys: list[int] = []
        for segment in segments:
            first, last = len(keys), segment.end // self.block_tokens
            if self._max_blocks is not None:
                last = min(last, self._max_blocks)
            if last > first:
                keys += self._of(segment, first, last)
        return keys

    def _of(self, segment: Segment, first: int, last: int) -> list[int]:
        place = (segment.identity, first, last)
        known = self._known.get(place)
        if known is None:
            start = (segment.identity ^ self._salt) * _STRIDE
            known = self._known[place] = [(start + number * _STRIDE) & _MASK for number in range(first, last)]
        return known
