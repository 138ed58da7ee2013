"""prefix-cache-scorer."""

from dataclasses import dataclass
from typing import ClassVar

from epp.scheduling.contracts import (
    NO_MATCH,
    BuildContext,
    Column,
    Cycle,
    PrefixMatch,
    SegmentColumn,
    Volatility,
)
from epp.scheduling.producers.approx_prefix_cache import PrefixIndexParameters, resolve_producer
from epp.scheduling.registry import param

__all__ = ["PrefixCacheScorer", "PrefixCacheScorerParameters"]


@dataclass(frozen=True, slots=True)
class PrefixCacheScorerParameters(PrefixIndexParameters):
    """Parameters of prefix-cache-scorer: its own, and (in the style of v1.2) those of a view of its own."""

    producer_name: str | None = param(
        None, key="prefixMatchInfoProducerName", doc="The producer whose matches are scored."
    )
    match_length_weight: float = param(
        0.0,
        key="matchLengthWeight",
        doc="Share of the score given by the length of the match instead of its ratio.",
        minimum=0,
        maximum=1,
    )
    match_length_scale_tokens: int = param(
        8192, key="matchLengthScaleTokens", doc="Match length that earns the whole of that share.", above=0
    )
    min_match_blocks: int = param(
        0,
        key="minMatchBlocks",
        doc="Matches of fewer blocks score 0; they are recorded all the same.",
        minimum=0,
    )


class PrefixCacheScorer:
    """Prefers endpoints that hold a longer prefix of the request in one view of the index.

    Formula: r = matched blocks / hashed blocks of the request; L = min(1, matched tokens / scale)^2; score =
    (1 - w) * r + w * L with w = matchLengthWeight, 0 by default (as the Go picker). Fewer than minMatchBlocks
    matched blocks score 0.
    Missing data: no match known, or a request without a full block: 0 for each.
    Ties: equal matches give equal scores.
    """

    type: ClassVar[str] = "prefix-cache-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(
        self,
        name: str,
        producer: str,
        *,
        match_length_weight: float = 0.0,
        match_length_scale_tokens: int = 8192,
        min_match_blocks: int = 0,
    ) -> None:
        self.name = name
        self.producer = producer
        self._length_weight = match_length_weight
        self._length_scale_tokens = match_length_scale_tokens
        self._min_match_blocks = min_match_blocks
        self._by_ratio = not match_length_weight and not min_match_blocks

    @classmethod
    def build(
        cls, name: str, parameters: PrefixCacheScorerParameters, context: BuildContext
    ) -> "PrefixCacheScorer":
        """Factory for the registry.

        Raises:
            ConfigError: the named producer does not exist.
        """
        return cls(
            name,
            resolve_producer(name, parameters.producer_name, context),
            match_length_weight=parameters.match_length_weight,
            match_length_scale_tokens=parameters.match_length_scale_tokens,
            min_match_blocks=parameters.min_match_blocks,
        )

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        match = cycle.matches.get(self.producer, NO_MATCH)
        total = match.total_blocks
        if self._by_ratio and total > 0:
            # The scores of `_score_of`, without a call for each.
            segments = [(mask, blocks / total if blocks < total else 1.0) for mask, blocks in match.segments]
        else:
            segments = [(mask, self._score_of(blocks, match)) for mask, blocks in match.segments]
        return SegmentColumn(cycle.slots(), 0.0, tuple(segments))

    def _score_of(self, blocks: int, match: PrefixMatch) -> float:
        if blocks < self._min_match_blocks or match.total_blocks <= 0:
            return 0.0
        ratio = min(1.0, blocks / match.total_blocks)
        if not self._length_weight:
            return ratio
        length = min(1.0, blocks * match.block_tokens / self._length_scale_tokens) ** 2
        return (1.0 - self._length_weight) * ratio + self._length_weight * length
