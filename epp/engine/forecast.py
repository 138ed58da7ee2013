"""When a request would have its first token on a server, if nothing came after it.

An estimate from the server's true state, for the regret of a decision: what is ahead of the request is
computed in order under the token budget, beside the sequences that decode now; where blocks are short it
waits for the first of those to end. Preemption, and what decodes grow meanwhile, are left out.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass

from epp.engine.cpu_tier import CpuTier
from epp.engine.gpu_tier import GpuTier
from epp.engine.latency import LatencyProfile, StepLoad
from epp.engine.sequence import Sequence
from epp.engine.types import EngineConfig, EngineRequest

__all__ = ["Surroundings", "first_token_s"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a request would find: tiers, who runs, who is queued or loading, when the link is free."""

    config: EngineConfig
    latency: LatencyProfile
    gpu: GpuTier
    cpu: CpuTier
    running: Items[Sequence]
    queued: Items[Sequence]
    link_free_s: float


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a sequence still needs: tokens to compute after `context` others, blocks, tokens to fetch."""

    tokens: int
    context: int
    blocks: int
    fetched_tokens: int = 0


def first_token_s(around: Surroundings, request: EngineRequest, start_s: float) -> float:
    """The time of the first token of `request`; steps begin at `start_s`."""
    own = _demand(around, Sequence(request, start_s))
    queued = [_demand(around, sequence) for sequence in around.queued]
    decoding = [s for s in around.running if s.generated_tokens and s.remaining_tokens == 1]
    prefilling = [_rest(s) for s in around.running if not s.generated_tokens or s.remaining_tokens > 1]
    blocks = own.blocks + sum(demand.blocks for demand in queued)
    in_order_s = _computed_s(around, [*prefilling, *queued, own], decoding, start_s)
    held_up_s = max(_fetched_s(around, [*queued, own], start_s), start_s + _room_s(around, decoding, blocks))
    return max(in_order_s, _computed_s(around, [own], decoding, held_up_s))


def _demand(around: Surroundings, sequence: Sequence) -> _Demand:
    """Of a queued sequence: what the tiers do not hold."""
    if sequence.blocks:
        return _rest(sequence)
    size = around.config.block_tokens
    keys = sequence.matchable_keys(size)
    held = around.gpu.match(keys)
    reach = len(held)
    if around.config.cpu_blocks:
        reach += around.cpu.match(keys[reach:])
        reach = max(len(held), reach - reach % around.config.cpu_unit_blocks)
    tokens = sequence.known_tokens - reach * size
    blocks = around.gpu.count_free(held) + -(-sequence.known_tokens // size) - len(held)
    return _Demand(tokens, reach * size, blocks, (reach - len(held)) * size)


def _rest(sequence: Sequence) -> _Demand:
    """Of a sequence that has its blocks: the part of its prompt that is not computed."""
    return _Demand(max(0, sequence.remaining_tokens), sequence.computed_tokens, 0)


def _fetched_s(around: Surroundings, demands: Items[_Demand], start_s: float) -> float:
    """When the transfers of all `demands` have ended, one after the other."""
    when_s = max(around.link_free_s, start_s)
    if around.config.cpu_synchronous:
        when_s = start_s
    fetched = [demand.fetched_tokens for demand in demands]
    if not fetched[-1]:
        return start_s
    return when_s + sum(
        around.latency.load_s(tokens * around.config.kv_bytes_per_token) for tokens in fetched if tokens
    )


def _room_s(around: Surroundings, decoding: Items[Sequence], blocks: int) -> float:
    """Seconds until `blocks` are free, as sequences that decode end; the last end where they never are."""
    missing = blocks - around.gpu.free_blocks
    if missing <= 0:
        return 0.0
    step_s = around.latency.step_s(_load(decoding, []))
    seconds = 0.0
    for sequence in sorted(decoding, key=_tokens_left):
        seconds = _tokens_left(sequence) * step_s
        missing -= around.gpu.count_alone(sequence.blocks)
        if missing <= 0:
            break
    return seconds


def _tokens_left(sequence: Sequence) -> int:
    return sequence.request.output_tokens - sequence.generated_tokens


def _computed_s(
    around: Surroundings, demands: Items[_Demand], decoding: Items[Sequence], start_s: float
) -> float:
    """When `demands` are computed, one after the other from `start_s` on, beside sequences that decode."""
    budget = max(1, around.config.max_num_batched_tokens - len(decoding))
    steps = _steps(demands, budget)
    return start_s + sum(around.latency.step_s(_load(decoding, chunks)) for chunks in steps)


def _steps(demands: Items[_Demand], budget: int) -> Iterator[list[tuple[int, int]]]:
    """Chunks (tokens, tokens before them) of each step."""
    chunks: list[tuple[int, int]] = []
    left = budget
    for demand in demands:
        tokens, context = demand.tokens, demand.context
        while tokens:
            chunk = min(tokens, left)
            chunks.append((chunk, context))
            tokens, context, left = tokens - chunk, context + chunk, left - chunk
            if not left:
                yield chunks
                chunks, left = [], budget
    if chunks:
        yield chunks


def _load(decoding: Items[Sequence], chunks: Items[tuple[int, int]]) -> StepLoad:
    return StepLoad(
        computed_tokens=len(decoding) + sum(tokens for tokens, _ in chunks),
        prefill_pairs=sum(tokens * (context + tokens / 2) for tokens, context in chunks),
        decodes=len(decoding),
        decode_context_tokens=sum(sequence.computed_tokens for sequence in decoding),
    )
