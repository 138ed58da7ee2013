"""Which view of the prefix index is which tier, how large it is, and what a match in it is worth."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from epp.endpoints.types import Endpoint, EndpointMetrics
from epp.prefix import PrefixIndex
from epp.scheduling.contracts import PrefixMatch

__all__ = [
    "DEFAULT_BLOCK_TOKENS",
    "Tier",
    "TierView",
    "capacity_tokens",
    "engine_block_tokens",
    "hit_tokens",
    "predicted_hits",
    "size_views",
]

DEFAULT_BLOCK_TOKENS: Final = 16  # an engine block, where metrics do not say
_MISMATCH: Final = 0.10
_NEVER_SCRAPED: Final = EndpointMetrics()


class Tier(enum.StrEnum):
    """Levels of an endpoint's prefix cache."""

    GPU = "gpu"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class TierView:
    """One prefix producer's view of the index.

    `block_bytes` is the hash block; four bytes are one token where prompts are token ids. `max_blocks` caps
    what is hashed, None: no cap. `capacity_blocks` is `lruCapacityPerServer`, in engine blocks.
    """

    name: str
    index_view: int
    tier: Tier
    block_bytes: int
    max_blocks: int | None
    auto_tune: bool
    capacity_blocks: int
    cut: tuple[int, int | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Views with the same `cut` take the same blocks of a prompt."""
        object.__setattr__(self, "cut", (self.block_bytes, self.max_blocks))


def _reported(view: TierView, metrics: EndpointMetrics) -> int | None:
    if view.tier is Tier.GPU:
        return metrics.gpu_capacity_tokens
    return metrics.cpu_capacity_tokens


def _last_good(endpoint: Endpoint) -> EndpointMetrics:
    # Sizes outlive staleness: an endpoint that cannot be scraped for a while has not changed its memory.
    return endpoint.metrics or _NEVER_SCRAPED


def engine_block_tokens(endpoint: Endpoint) -> int:
    """The endpoint's own block: what its tiers hold is a whole number of these."""
    return _last_good(endpoint).block_tokens or DEFAULT_BLOCK_TOKENS


def capacity_tokens(view: TierView, endpoint: Endpoint) -> int:
    """The tier's size: with `autoTune` what the engine reports, else the configured engine blocks."""
    reported = _reported(view, _last_good(endpoint))
    if view.auto_tune and reported:
        return reported
    return view.capacity_blocks * engine_block_tokens(endpoint)


def capacity_mismatch(view: TierView, endpoint: Endpoint) -> float | None:
    """Configured ÷ reported size where they differ by more than a tenth, else None."""
    reported = _reported(view, _last_good(endpoint))
    if not reported:
        return None
    ratio = capacity_tokens(view, endpoint) / reported
    return ratio if abs(ratio - 1.0) > _MISMATCH else None


def size_views(index: PrefixIndex, views: Iterable[TierView], endpoints: Iterable[Endpoint]) -> None:
    """Give every endpoint's part of every view its size; sizes may change while running."""
    endpoints = tuple(endpoints)
    for view in views:
        for endpoint in endpoints:
            index.set_capacity(view.index_view, endpoint.slot, capacity_tokens(view, endpoint))


def hit_tokens(view: TierView, endpoint: Endpoint, match: PrefixMatch, prompt_tokens: int) -> int:
    """Tokens that the endpoint's tier is predicted to serve.

    A match is rounded down to the tier's hit unit, and at least the last prompt token is always computed.
    """
    blocks = match.blocks(endpoint.slot)
    if not blocks:
        return 0
    metrics = _last_good(endpoint)
    told = metrics.hit_unit_tokens if view.tier is Tier.GPU else metrics.cpu_hit_unit_tokens
    unit = told or metrics.block_tokens or DEFAULT_BLOCK_TOKENS
    matched = min(int(blocks * match.block_tokens), prompt_tokens - 1)
    return max(0, matched // unit * unit)


def predicted_hits(
    views: Iterable[TierView], endpoint: Endpoint, matches: Mapping[str, PrefixMatch], prompt_tokens: int
) -> dict[Tier, int]:
    """Predicted hit tokens by tier; the CPU tier serves only what reaches beyond the GPU tier's hit."""
    hits: dict[Tier, int] = {}
    for view in views:
        found = hit_tokens(view, endpoint, matches[view.name], prompt_tokens)
        if found >= hits.get(view.tier, 0):
            hits[view.tier] = found
    if Tier.CPU in hits:
        hits[Tier.CPU] = max(0, hits[Tier.CPU] - hits.get(Tier.GPU, 0))
    return hits
