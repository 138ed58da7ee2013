"""lmetric-scorer."""

from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.producers.matched import held_tokens
from epp.scheduling.registry import NoParameters

__all__ = ["LmetricScorer"]


class LmetricScorer:
    """Prefers the endpoint with the least new prompt tokens times requests, this one included (LMetric).

    Formula: cost = (uncached prompt tokens of this router's requests that the endpoint has yet to compute,
    plus those of this request that it does not hold) * (requests in flight there + 1); score = (least + 1) /
    (cost + 1). No weights and no times: a fallback where nothing is known of latency. Source: arXiv
    2603.15202.
    Missing data: none; an endpoint without requests has 0, no known match is 0 tokens held.
    Ties: equal costs give equal scores.
    """

    type: ClassVar[str] = "lmetric-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, cpu_producers: frozenset[str] = frozenset()) -> None:
        self.name = name
        self._cpu_producers = cpu_producers

    @classmethod
    def build(cls, name: str, _parameters: NoParameters, context: BuildContext) -> "LmetricScorer":
        """Factory for the registry."""
        return cls(name, context.cpu_producers)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        matched = held_tokens(cycle, self._cpu_producers)
        ledger = cycle.ledger
        costs = []
        for endpoint in cycle.candidates:
            slot = endpoint.slot
            new_tokens = ledger.tokens[slot] + max(1.0, cycle.prompt_tokens - matched.most(slot))
            costs.append(new_tokens * (ledger.requests[slot] + 1))
        least = min(costs, default=0.0) + 1.0
        return [least / (cost + 1.0) for cost in costs]
