"""token-load-scorer."""

from dataclasses import dataclass
from typing import ClassVar

from epp.scheduling.columns import add_weighted
from epp.scheduling.contracts import BuildContext, Column, Cycle, SegmentColumn, Volatility
from epp.scheduling.registry import param

__all__ = ["TokenLoadParameters", "TokenLoadScorer"]


@dataclass(frozen=True, slots=True)
class TokenLoadParameters:
    """Parameters of token-load-scorer."""

    queue_threshold_tokens: int = param(
        4_194_304, key="queueThresholdTokens", doc="Tokens to compute that score 0.", above=0
    )
    in_flight_load_producer_name: str | None = param(
        None, key="inFlightLoadProducerName", doc="Ignored: there is one ledger of requests in flight."
    )


class TokenLoadScorer:
    """Prefers endpoints that would have fewer prompt tokens to compute with this request, exact at the pick.

    Formula: 1 - min(t, T) / T, T = queueThresholdTokens, t = uncached prompt tokens of this router's requests
    that the endpoint has yet to compute, plus those of this request that it does not hold (as the Go picker).
    What it holds is the longest match that any producer knows.
    Missing data: none; an endpoint without requests has 0, no known match is 0 tokens held.
    Ties: equal loads give equal scores.
    """

    type: ClassVar[str] = "token-load-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, queue_threshold_tokens: int = 4_194_304) -> None:
        self.name = name
        self._threshold = queue_threshold_tokens

    @classmethod
    def build(cls, name: str, parameters: TokenLoadParameters, _context: BuildContext) -> "TokenLoadScorer":
        """Factory for the registry."""
        return cls(name, parameters.queue_threshold_tokens)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        slots, most = cycle.slots(), self._threshold
        in_flight = [float(tokens) for tokens in slots.read(cycle.ledger.tokens)]
        loads = add_weighted(in_flight, [(_to_compute(cycle), 1.0)], slots)
        return [1.0 - load / most if load < most else 0.0 for load in loads]


def _to_compute(cycle: Cycle) -> SegmentColumn:
    """Tokens of the request that each candidate does not hold."""
    held = sorted(
        (blocks * match.block_tokens, mask)
        for match in cycle.matches.values()
        for mask, blocks in match.segments
    )
    segments = []
    taken = 0
    for tokens, mask in reversed(held):
        segments.append((mask & ~taken, max(0.0, cycle.prompt_tokens - tokens)))
        taken |= mask
    return SegmentColumn(cycle.slots(), float(cycle.prompt_tokens), tuple(segments))
