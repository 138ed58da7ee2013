"""Chained block hashes: hash i stands for the whole prefix up to and including block i.

    data    |--- block 0 ---|--- block 1 ---|- tail -|      (the partial tail has no hash)
    seed ──▶ h0 = xxh3(block 0, seed)  ──▶  h1 = xxh3(block 1, h0)

Two chains that share hash i share every hash before it, which is what lets the index compare whole runs of
blocks by their last hash alone.
"""

from collections.abc import Callable, Generator
from functools import lru_cache
from struct import Struct
from typing import Final, TypeVar

from xxhash import xxh3_64_intdigest

__all__ = ["chain_seed", "drain", "hash_chain"]

_STEP_BYTES: Final = 1 << 20
# Blocks that are cut out of the data, and hashed, by one call in C; together no more than a step.
_PIECE_BLOCKS: Final = 128
# Small blocks cost per block, not per byte: 8,192 of them take about as long as one MiB of large ones.
_STEP_PIECES: Final = 64

_Result = TypeVar("_Result")


def chain_seed(*fields: str) -> int:
    """The 64-bit seed of a chain: model, adapter, salt and what else must keep prompts apart.

    Each field is preceded by its length in bytes, so no two tuples of fields encode to the same bytes. Lone
    surrogates (JSON allows them as escapes) are encoded as they are.
    """
    encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
    return xxh3_64_intdigest(b"".join(len(part).to_bytes(8, "little") + part for part in encoded))


def hash_chain(
    data: bytes | bytearray, seed: int, block_bytes: int, max_blocks: int | None
) -> Generator[None, None, list[int]]:
    """Hashes the full blocks of `data`; a generator, so that a long prompt does not hold the event loop.

    Yields None between steps of about one MiB and returns the hashes (unsigned 64-bit), first block first.
    Data shorter than a block gives an empty list. `max_blocks` caps the list, None does not.

    Raises:
        ValueError: `block_bytes` is below 1 or `max_blocks` below 0.
    """
    if block_bytes < 1:
        raise ValueError(f"block_bytes must be at least 1, got {block_bytes}")
    if max_blocks is not None and max_blocks < 0:
        raise ValueError(f"max_blocks must be at least 0 or None, got {max_blocks}")
    blocks = len(data) // block_bytes
    if max_blocks is not None and max_blocks < blocks:
        blocks = max_blocks
    piece = min(_PIECE_BLOCKS, _STEP_BYTES // block_bytes) or 1
    # Each hash is the seed of the next: `lasts` reads the list that is growing, one item behind its end.
    chain = [seed]
    lasts = iter(chain)
    for first in range(0, blocks, piece):
        if first and not first % (piece * _pieces_a_step(piece * block_bytes)):
            yield
        cut = _cutter(block_bytes, min(piece, blocks - first))
        chain.extend(map(xxh3_64_intdigest, cut(data, first * block_bytes), lasts))
    del chain[0]
    return chain


def _pieces_a_step(piece_bytes: int) -> int:
    return min(_STEP_PIECES, _STEP_BYTES // piece_bytes) or 1


@lru_cache(256)
def _cutter(block_bytes: int, count: int) -> Callable[[bytes | bytearray, int], tuple[bytes, ...]]:
    """Cuts so many blocks out of data from an offset on. Sizes are few, and counts at most 128."""
    return Struct(f"{block_bytes}s" * count).unpack_from


def drain(generator: Generator[None, None, _Result]) -> _Result:
    """Runs a step generator to its end at once and returns its result."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            result: _Result = stop.value
            return result
