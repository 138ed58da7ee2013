"""kv-overlap-cost-scorer."""

from dataclasses import dataclass
from typing import ClassVar, Final

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.producers.matched import held_tokens
from epp.scheduling.registry import param

__all__ = ["KvOverlapCostParameters", "KvOverlapCostScorer"]

_BLOCK_TOKENS: Final = 16.0


@dataclass(frozen=True, slots=True)
class KvOverlapCostParameters:
    """Parameters of kv-overlap-cost-scorer."""

    overlap_weight: float = param(
        1.0, key="overlapWeight", doc="What a block to prefill counts against a block in use.", minimum=0
    )


class KvOverlapCostScorer:
    """Prefers the endpoint with the least blocks to prefill and in use, as NVIDIA Dynamo's KV router.

    Formula: cost = overlapWeight * blocks to prefill (this request's and those sent there before) + blocks in
    use there; blocks of 16 tokens, in use = KV usage as scraped * capacity; score = (least + 1) / (cost + 1).
    Missing data: an endpoint that does not tell usage and capacity has no blocks in use.
    Ties: equal costs give equal scores (the original draws at a temperature of 0 the least, too).
    """

    type: ClassVar[str] = "kv-overlap-cost-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(
        self, name: str, cpu_producers: frozenset[str] = frozenset(), *, overlap_weight: float = 1.0
    ) -> None:
        self.name = name
        self._cpu_producers = cpu_producers
        self._weight = overlap_weight

    @classmethod
    def build(
        cls, name: str, parameters: KvOverlapCostParameters, context: BuildContext
    ) -> "KvOverlapCostScorer":
        """Factory for the registry."""
        return cls(name, context.cpu_producers, overlap_weight=parameters.overlap_weight)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        matched = held_tokens(cycle, self._cpu_producers)
        costs = []
        for endpoint in cycle.candidates:
            metrics = endpoint.metrics if endpoint.fresh else None
            used = 0.0
            if metrics is not None and metrics.kv_usage is not None:
                used = metrics.kv_usage * (metrics.gpu_capacity_tokens or 0)
            miss = cycle.prompt_tokens - matched.most(endpoint.slot)
            prefill = cycle.ledger.tokens[endpoint.slot] + max(0.0, miss)
            costs.append((self._weight * prefill + used) / _BLOCK_TOKENS)
        least = min(costs, default=0.0) + 1.0
        return [least / (cost + 1.0) for cost in costs]
