"""Steps that the engine has begun: one, or a run of equal decode steps in closed form.

While every sequence of the batch decodes and nothing else can be admitted, each step only adds a token to
each sequence, so the steps differ by the tokens that are attended to alone. A run of them is one event:

    duration of k steps = k * first + growth * k * (k - 1) / 2

The result is that of single steps, with one exception: where a prompt is longer than the token budget of a
step, the eviction of blocks that it would hit may let its first chunk in, which is then seen at the end of
the run.
"""

import math
from dataclasses import dataclass
from typing import Final

from epp.engine.latency import LatencyProfile, StepLoad
from epp.engine.sequence import Sequence

__all__ = ["Batch", "StepRun", "load_of", "longest_run", "run_of"]

_UNLIMITED: Final = 1 << 62

Batch = list[tuple[Sequence, int]]
"""Sequences of a step, each with the tokens it computes."""


@dataclass(slots=True)
class StepRun:
    """Steps under way.

    Attributes:
        batch: who computes how many tokens in the first step.
        start_s: when they began.
        first_s: duration of the first step.
        growth_s: what each further step takes more than the one before.
        steps: how many there are.
        open: another request would be looked at before these steps end, so that its arrival ends them.
    """

    batch: Batch
    start_s: float
    first_s: float
    growth_s: float = 0.0
    steps: int = 1
    open: bool = True

    @property
    def end_s(self) -> float:
        """When the last of the steps ends."""
        return self.start_s + self.elapsed_s(self.steps)

    def elapsed_s(self, steps: int) -> float:
        """Duration of the first `steps` steps."""
        return steps * self.first_s + self.growth_s * (steps * (steps - 1) / 2)

    def cut(self, now: float) -> None:
        """End with the first step that ends at or after `now`."""
        self.steps = min(self.steps, self._steps_until(now - self.start_s))

    def boundary_s(self, now: float) -> float:
        """When a request that comes at `now` is looked at."""
        steps = self._steps_until(now - self.start_s) if self.open else self.steps
        return self.start_s + self.elapsed_s(min(self.steps, steps))

    def _steps_until(self, elapsed_s: float) -> int:
        if elapsed_s <= self.first_s or self.steps == 1:
            return 1
        half = self.growth_s / 2
        linear = self.first_s - half
        # Solved for k without the cancellation that a small growth would bring.
        root = math.sqrt(linear * linear + 4 * half * elapsed_s)
        steps = max(1, math.floor(2 * elapsed_s / (linear + root)))
        while steps < self.steps and self.elapsed_s(steps) < elapsed_s:
            steps += 1
        return steps


def load_of(batch: Batch) -> StepLoad:
    """Describe a batch whose tokens are already counted as computed."""
    pairs = 0.0
    computed = decodes = decode_context = 0
    for sequence, tokens in batch:
        computed += tokens
        if tokens == 1 and sequence.generated_tokens > 0:
            decodes += 1
            decode_context += sequence.computed_tokens
        else:
            pairs += tokens * (sequence.computed_tokens - tokens / 2)
    return StepLoad(computed, pairs, decodes, decode_context)


def longest_run(batch: Batch, free_blocks: int, block_tokens: int) -> int:
    """How many equal steps a batch can make, the first of which has its blocks already.

    Ends with the first sequence that finishes, and before blocks run out. 1 unless every sequence decodes.
    """
    most = _UNLIMITED
    for sequence, tokens in batch:
        if tokens != 1 or sequence.generated_tokens == 0:
            return 1
        left = sequence.request.output_tokens - sequence.generated_tokens
        most = min(most, left)
    if _blocks_needed(batch, most - 1, block_tokens) <= free_blocks:
        return most
    fewest, most = 1, most - 1
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if _blocks_needed(batch, middle - 1, block_tokens) <= free_blocks:
            fewest = middle
        else:
            most = middle - 1
    return fewest


def _blocks_needed(batch: Batch, steps: int, block_tokens: int) -> int:
    needed = 0
    for sequence, _ in batch:
        needed += -(-(sequence.computed_tokens + steps) // block_tokens) - len(sequence.blocks)
    return needed


def run_of(
    batch: Batch, load: StepLoad, latency: LatencyProfile, start_s: float, steps: int, extra_s: float
) -> StepRun:
    """The run of `steps` steps; `extra_s` is what the first takes beside computing."""
    first_s = latency.step_s(load) + extra_s
    if steps == 1:
        return StepRun(batch, start_s, first_s)
    last = StepLoad(
        load.computed_tokens, 0.0, load.decodes, load.decode_context_tokens + load.decodes * (steps - 1)
    )
    return StepRun(batch, start_s, first_s, (latency.step_s(last) - first_s) / (steps - 1), steps)
