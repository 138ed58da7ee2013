"""prefix-cache-affinity-filter."""

import random
from dataclasses import dataclass
from typing import ClassVar

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Cycle, Volatility
from epp.scheduling.producers.matched import held_tokens
from epp.scheduling.registry import param

__all__ = ["PrefixAffinityFilter", "PrefixAffinityParameters"]


@dataclass(frozen=True, slots=True)
class PrefixAffinityParameters:
    """Parameters of prefix-cache-affinity-filter, with llm-d's defaults."""

    affinity_threshold: float = param(
        0.80,
        key="affinityThreshold",
        doc="Share of the prompt that an endpoint must hold to be kept.",
        minimum=0,
        maximum=1,
    )
    max_ttft_penalty_ms: float = param(
        18_000.0,
        key="maxTTFTPenaltyMs",
        doc="All are kept when the best of the endpoints that hold it is so much later than the best of all.",
        minimum=0,
    )
    exploration_probability: float = param(
        0.0,
        key="explorationProbability",
        doc="Share of requests for which all are kept.",
        minimum=0,
        maximum=1,
    )
    ttft_source: str = param(
        "prefillThroughput",
        key="ttftSource",
        doc="Where times come from; latencyPredictor is not supported, use ttft-cost-scorer.",
        choices=("prefillThroughput",),
    )
    peak_prefill_throughput: float = param(
        15_928.0,
        key="peakPrefillThroughput",
        doc="Prompt tokens a second; llm-d measured this for Qwen 32B on two H100.",
        above=0,
    )


class PrefixAffinityFilter:
    """Keeps the endpoints that hold most of the prompt, unless all of them are far behind the others (llm-d).

    An endpoint is kept that holds at least affinityThreshold of the prompt. All are kept when none does, or
    when the least uncached tokens in flight of those, over peakPrefillThroughput, exceed the least of all by
    maxTTFTPenaltyMs. Meant for use with token-load-scorer.
    """

    type: ClassVar[str] = "prefix-cache-affinity-filter"
    volatility: Volatility = "request"

    def __init__(
        self,
        name: str,
        generator: random.Random,
        cpu_producers: frozenset[str] = frozenset(),
        parameters: PrefixAffinityParameters | None = None,
    ) -> None:
        self.name = name
        self._random = generator
        self._cpu_producers = cpu_producers
        self._parameters = parameters or PrefixAffinityParameters()

    @classmethod
    def build(
        cls, name: str, parameters: PrefixAffinityParameters, context: BuildContext
    ) -> "PrefixAffinityFilter":
        """Factory for the registry."""
        return cls(name, context.random, context.cpu_producers, parameters)

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The endpoints to keep, in the same order."""
        limits = self._parameters
        if limits.exploration_probability and self._random.random() < limits.exploration_probability:
            return cycle.candidates
        matched = held_tokens(cycle, self._cpu_producers)
        least = limits.affinity_threshold * cycle.prompt_tokens
        sticky = tuple(e for e in cycle.candidates if matched.most(e.slot) >= max(1.0, least))
        if not sticky or len(sticky) == len(cycle.candidates):
            return cycle.candidates
        tokens = cycle.ledger.tokens
        behind = min(tokens[e.slot] for e in sticky) - min(tokens[e.slot] for e in cycle.candidates)
        late_ms = 1000.0 * behind / limits.peak_prefill_throughput
        return sticky if late_ms <= limits.max_ttft_penalty_ms else cycle.candidates
