"""Prompts without text: identities of prefixes, from which block keys are made.

A prompt is a list of segments. A segment's identity stands for everything up to its end, so two prompts share
a prefix exactly as far as they begin with the same segments. The router's hashes and the engine's keys are
derived apart from each other, each in its own block size.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = ["KeyMaker", "Segment", "identity"]

_MASK: Final = (1 << 64) - 1
_STRIDE: Final = 0x9E3779B97F4A7C15  # odd, and spread over all bits
_ROOM_BITS: Final = 4  # so that numbers in sequence stay below 64 bits


class Segment(msgspec.Struct, frozen=True):
    """Tokens up to `end` (exclusive, from the prompt's start) that `identity` names, all before included."""

    identity: int
    end: int


def identity(*parts: object) -> int:
    """A 64-bit name of what `parts` say, the same in every process."""
    text = "\x00".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class KeyMaker:
    """Keys of full blocks of one size: of each segment, numbers in sequence from one that it alone has.

    Two makers of different `name` give unrelated keys.
    """

    def __init__(self, name: str, block_tokens: int, max_blocks: int | None = None) -> None:
        self.block_tokens = block_tokens
        self._salt = identity(name)
        self._max_blocks = max_blocks

    def keys(self, segments: Sequence[Segment]) -> list[int]:
        """One key for each full block: it belongs to the segment in which the block ends."""
        keys: list[int] = []
        first, size, salt = 0, self.block_tokens, self._salt
        for segment in segments:
            last = segment.end // size
            if last > first:
                start = ((segment.identity ^ salt) * _STRIDE & _MASK) >> _ROOM_BITS
                keys += range(start, start + last - first)
                first = last
        return keys if self._max_blocks is None else keys[: self._max_blocks]
