"""cache-aware-scorer."""

from dataclasses import dataclass
from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Column, Cycle, Volatility
from epp.scheduling.producers.matched import held_tokens
from epp.scheduling.registry import param

__all__ = ["CacheAwareParameters", "CacheAwareScorer"]


@dataclass(frozen=True, slots=True)
class CacheAwareParameters:
    """Parameters of cache-aware-scorer, with SGLang's defaults."""

    cache_threshold: float = param(
        0.3, key="cacheThreshold", doc="Share of the prompt that a match must exceed.", minimum=0, maximum=1
    )
    balance_abs_threshold: int = param(
        64,
        key="balanceAbsThreshold",
        doc="Requests in flight by which endpoints must differ to be out of balance ...",
        minimum=0,
    )
    balance_rel_threshold: float = param(
        1.5, key="balanceRelThreshold", doc="... and the factor by which they must.", minimum=1
    )


class CacheAwareScorer:
    """Either load or cache decides, never both: the rule of SGLang's router.

    Formula: while most - least > balanceAbsThreshold and most > balanceRelThreshold * least, of requests in
    flight, the least loaded endpoints score 1 and the others 0. Else, if the longest match exceeds
    cacheThreshold of the prompt, those that have it score 1; else the least loaded do (the original: the
    smallest tree).
    Missing data: none; no known match is 0 tokens held.
    Ties: all that are equally good score 1.
    """

    type: ClassVar[str] = "cache-aware-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(
        self,
        name: str,
        cpu_producers: frozenset[str] = frozenset(),
        parameters: CacheAwareParameters | None = None,
    ) -> None:
        self.name = name
        self._cpu_producers = cpu_producers
        self._parameters = parameters or CacheAwareParameters()

    @classmethod
    def build(cls, name: str, parameters: CacheAwareParameters, context: BuildContext) -> "CacheAwareScorer":
        """Factory for the registry."""
        return cls(name, context.cpu_producers, parameters)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        matched = held_tokens(cycle, self._cpu_producers)
        held = [matched.most(endpoint.slot) for endpoint in cycle.candidates]
        loads = [cycle.ledger.requests[endpoint.slot] for endpoint in cycle.candidates]
        longest = max(held, default=0.0)
        if not self._balanced(loads) or longest <= self._parameters.cache_threshold * cycle.prompt_tokens:
            return _marks([-load for load in loads])
        return _marks(held)

    def _balanced(self, loads: list[int]) -> bool:
        most, least = max(loads, default=0), min(loads, default=0)
        limits = self._parameters
        return most - least <= limits.balance_abs_threshold or most <= limits.balance_rel_threshold * least


def _marks(values: list[float] | list[int]) -> list[float]:
    """1 for the largest, 0 for the others."""
    best = max(values, default=0)
    return [1.0 if value == best else 0.0 for value in values]
