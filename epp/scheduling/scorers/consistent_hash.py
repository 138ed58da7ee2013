"""consistent-hash-scorer."""

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.registry import param

__all__ = ["ConsistentHashParameters", "ConsistentHashScorer"]


@dataclass(frozen=True, slots=True)
class ConsistentHashParameters:
    """Parameters of consistent-hash-scorer."""

    load_factor: float = param(
        1.25, key="loadFactor", doc="Requests in flight at most, as a multiple of the mean.", above=1
    )


class ConsistentHashScorer:
    """The same prompt head goes to the same endpoint while that is not overloaded: bounded-load hashing.

    Formula: endpoints in the order of a hash of (first block of the prompt, address), highest first; the
    first whose requests in flight are below ceil(loadFactor * (requests of all + 1) / endpoints) scores 1,
    the next 0.5, then 0.25 and so on; those at the bound score 0. Needs no memory of what was sent where.
    Missing data: a prompt without a full block is placed by its length.
    Ties: none.
    """

    type: ClassVar[str] = "consistent-hash-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, load_factor: float = 1.25) -> None:
        self.name = name
        self._load_factor = load_factor

    @classmethod
    def build(
        cls, name: str, parameters: ConsistentHashParameters, _context: BuildContext
    ) -> "ConsistentHashScorer":
        """Factory for the registry."""
        return cls(name, parameters.load_factor)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        key = cycle.chain[0] if cycle.chain else cycle.prompt_tokens
        loads = [cycle.ledger.requests[endpoint.slot] for endpoint in cycle.candidates]
        bound = math.ceil(self._load_factor * (sum(loads) + 1) / max(1, len(loads)))
        ranks = [_rank(key, endpoint.address) for endpoint in cycle.candidates]
        scores = [0.0] * len(loads)
        score = 1.0
        for place in sorted(range(len(loads)), key=ranks.__getitem__, reverse=True):
            if loads[place] < bound:
                scores[place] = score
                score /= 2
        return scores


def _rank(key: int, address: str) -> bytes:
    return hashlib.blake2b(f"{key}\n{address}".encode(), digest_size=8).digest()
