"""Prefix blocks: the chain of hashes of a prompt, and the index of who holds which leading blocks."""

from epp.prefix.hashing import chain_seed, drain, hash_chain
from epp.prefix.index import DEFAULT_CAPACITY_TOKENS, PrefixIndex, Touch
from epp.prefix.matching import Segments
from epp.prefix.residency import Occupancy

__all__ = [
    "DEFAULT_CAPACITY_TOKENS", "Occupancy", "PrefixIndex", "Segments", "Touch", "chain_seed", "drain",
    "hash_chain",
]  # fmt: skip
