"""max-score-picker."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
from epp.scheduling.columns import CandidateSlots
from epp.scheduling.contracts import NEAR_SHARE, BuildContext, Column, Cycle
from epp.scheduling.registry import param

__all__ = ["MaxScoreParameters", "MaxScorePicker"]

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

    Ties: the best of those left and all whose total is within 1 % of the sum of weights below it are a tie,
    ordered by least requests in flight, then least recently picked, then the seeded generator. The first is
    found at once, the others when they are asked for, by the ledger as it is then: a retry avoids an endpoint
    that has filled up since.
    """

    type: ClassVar[str] = "max-score-picker"

    def __init__(
        self, name: str, generator: random.Random, *, max_endpoints: int = 1, tie_break: str = "inFlight"
    ) -> None:
        self.name = name
        self.max_endpoints = max_endpoints
        self._random = generator
        self._by_load = tie_break == "inFlight"
        self._tie_share = NEAR_SHARE if self._by_load else _ROUNDING

    @classmethod
    def build(cls, name: str, parameters: MaxScoreParameters, context: BuildContext) -> "MaxScorePicker":
        """Factory for the registry."""
        return cls(
            name, context.random, max_endpoints=parameters.max_endpoints, tie_break=parameters.tie_break
        )

    def order(
        self, cycle: Cycle, totals: Column, weight_sum: float, contenders: Sequence[int] | None = None
    ) -> Iterator[Endpoint]:
        """All candidates, best first."""
        tolerance = self._tie_share * weight_sum
        places = self._places(cycle.slots(), cycle.ledger, totals, tolerance, contenders)
        return map(cycle.candidates.__getitem__, places)

    def _places(
        self,
        slots: CandidateSlots,
        ledger: Ledger,
        totals: Column,
        tolerance: float,
        contenders: Sequence[int] | None,
    ) -> Iterator[int]:
        if contenders is None:
            bar = max(totals) - tolerance
            ties = [place for place, total in enumerate(totals) if total >= bar]
        else:
            bar = max(map(totals.__getitem__, contenders)) - tolerance
            ties = [place for place in contenders if totals[place] >= bar]
        first = self._first(ties, slots, ledger) if len(ties) > 1 else ties[0]
        yield first
        ties.remove(first)
        yield from self._sorted(ties, slots, ledger)
        rest = [place for place, total in enumerate(totals) if total < bar]
        for band in _bands(rest, totals, tolerance):
            yield from self._sorted(band, slots, ledger)

    def _first(self, ties: list[int], slots: CandidateSlots, ledger: Ledger) -> int:
        """The head of `_sorted(ties)`, without sorting."""
        if self._by_load:
            for column in (ledger.requests, ledger.last_picked):
                if len(ties) == 1:
                    break
                ties = _least(ties, slots.read(column))
        return ties[int(self._random.random() * len(ties))] if len(ties) > 1 else ties[0]

    def _sorted(self, ties: list[int], slots: CandidateSlots, ledger: Ledger) -> list[int]:
        draws = [self._random.random() for _ in ties]
        if not self._by_load:
            return [place for _, place in sorted(zip(draws, ties, strict=True))]
        requests, last_picked = slots.read(ledger.requests), slots.read(ledger.last_picked)
        keys = [
            (requests[place], last_picked[place], draw, place)
            for draw, place in zip(draws, ties, strict=True)
        ]
        return [key[-1] for key in sorted(keys)]


def _least(places: list[int], column: Sequence[int]) -> list[int]:
    """Those of `places` at which `column` is least."""
    least = min(map(column.__getitem__, places))
    return [place for place in places if column[place] == least]


def _bands(places: list[int], totals: Column, tolerance: float) -> Iterator[list[int]]:
    """`places` by total, cut into ties: the best of those left and all within `tolerance` of it."""
    bar = math.inf
    band: list[int] = []
    for place in sorted(places, key=totals.__getitem__, reverse=True):
        if totals[place] < bar and band:
            yield band
            band = []
        if not band:
            bar = totals[place] - tolerance
        band.append(place)
    if band:
        yield band
