"""What each endpoint holds of a request, by tier, over all views."""

from collections.abc import Mapping
from dataclasses import dataclass

from epp.scheduling.contracts import Cycle

__all__ = ["Matched", "held_tokens"]


@dataclass(frozen=True, slots=True)
class Matched:
    """Tokens by slot; a slot that is not there holds nothing."""

    gpu_tokens: Mapping[int, float]
    cpu_tokens: Mapping[int, float]

    def gpu(self, slot: int) -> float:
        """Tokens of the prompt in the GPU tier."""
        return self.gpu_tokens.get(slot, 0.0)

    def cpu(self, slot: int) -> float:
        """Tokens of the prompt in the CPU tier."""
        return self.cpu_tokens.get(slot, 0.0)

    def most(self, slot: int) -> float:
        """The longer of both."""
        return max(self.gpu(slot), self.cpu(slot))


def held_tokens(cycle: Cycle, cpu_producers: frozenset[str]) -> Matched:
    """The longest match that any view of a tier knows, by slot."""
    gpu: dict[int, float] = {}
    cpu: dict[int, float] = {}
    for producer, match in cycle.matches.items():
        tier = cpu if producer in cpu_producers else gpu
        for mask, blocks in match.segments:
            tokens = min(blocks * match.block_tokens, float(cycle.prompt_tokens))
            left = mask
            while left:
                bit = left & -left
                slot = bit.bit_length() - 1
                tier[slot] = max(tier.get(slot, 0.0), tokens)
                left ^= bit
    return Matched(gpu, cpu)
