"""Block keys of the modelled server: its own scheme, unrelated to any router's.

A key is CPython's hash of (key of the block before, token ids of this block). Hashes of integers do not
depend on PYTHONHASHSEED, so that two servers give the same key to the same tokens, as vLLM does.
"""

import hashlib
from collections.abc import Sequence

__all__ = ["block_keys", "chain_seed"]


def chain_seed(*fields: str) -> int:
    """Start of a chain for what is not tokens but separates caches: adapter, `cache_salt`."""
    digest = hashlib.blake2b(digest_size=7)
    for field in fields:
        data = field.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")


def block_keys(token_ids: Sequence[int], block_tokens: int, seed: int = 0) -> tuple[int, ...]:
    """Keys of the full blocks of `token_ids`; a partial tail has none."""
    keys = []
    key = seed
    for end in range(block_tokens, len(token_ids) + 1, block_tokens):
        key = hash((key, *token_ids[end - block_tokens : end]))
        keys.append(key)
    return tuple(keys)
