"""max-score-picker."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle
from epp.scheduling.registry import param

__all__ = ["MaxScoreParameters", "MaxScorePicker"]

TIE_SHARE: Final = 0.01  # of the largest possible total
_ROUNDING: Final = 1e-9  # totals that differ by the order of additions only are equal


@dataclass(frozen=True, slots=True)
class MaxScoreParameters:
    """Parameters of max-score-picker."""

    max_endpoints: int = param(
        1, key="maxNumOfEndpoints", doc="How many endpoints a gateway is told.", minimum=1
    )
    tie_break: str = param(
        "inFlight",
        key="tieBreak",
        doc="inFlight: see the tie rule; random: equal totals alone are ties, shuffled, as in the Go picker.",
        choices=("inFlight", "random"),
    )


class MaxScorePicker:
    """Orders the candidates by total, the highest first.

    Ties: totals within 1 % of the sum of weights below the best of those left are a tie with it, broken by
    least requests in flight, then least recently picked, then the seeded generator. The first is found at
    once, the others when they are asked for, by the ledger as it is then: a retry avoids an endpoint that has
    filled up since.
    """

    type: ClassVar[str] = "max-score-picker"

    def __init__(
        self, name: str, generator: random.Random, *, max_endpoints: int = 1, tie_break: str = "inFlight"
    ) -> None:
        self.name = name
        self.max_endpoints = max_endpoints
        self._random = generator
        self._tie_share = TIE_SHARE if tie_break == "inFlight" else _ROUNDING
        self._by_load = tie_break == "inFlight"

    @classmethod
    def build(cls, name: str, parameters: MaxScoreParameters, context: BuildContext) -> "MaxScorePicker":
        """Factory for the registry."""
        return cls(
            name, context.random, max_endpoints=parameters.max_endpoints, tie_break=parameters.tie_break
        )

    def order(self, cycle: Cycle, totals: Column, weight_sum: float) -> Iterator[Endpoint]:
        """All candidates, best first."""
        return self._order(cycle.candidates, cycle.ledger, totals, self._tie_share * weight_sum)

    def _order(
        self, candidates: tuple[Endpoint, ...], ledger: Ledger, totals: Column, tolerance: float
    ) -> Iterator[Endpoint]:
        rest: Sequence[int] = range(len(candidates))
        while rest:
            bar = max(map(totals.__getitem__, rest)) - tolerance
            first = self._first([place for place in rest if totals[place] >= bar], candidates, ledger)
            yield candidates[first]
            rest = [place for place in rest if place != first]

    def _first(self, ties: Sequence[int], candidates: tuple[Endpoint, ...], ledger: Ledger) -> int:
        if self._by_load:
            for column in (ledger.requests, ledger.last_picked):
                if len(ties) == 1:
                    break
                least = min(column[candidates[place].slot] for place in ties)
                ties = [place for place in ties if column[candidates[place].slot] == least]
        return ties[int(self._random.random() * len(ties))] if len(ties) > 1 else ties[0]
