"""weighted-random-picker."""

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from typing import ClassVar

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle
from epp.scheduling.pickers.random_order import RandomParameters, shuffled

__all__ = ["WeightedRandomPicker"]


class WeightedRandomPicker:
    """Orders the candidates at random; the chance to be first is the candidate's share of the totals.

    Weighted sampling without replacement (Efraimidis and Spirakis, A-Res): the largest keys U^(1/total) come
    first, U uniform in (0, 1]. Keys are compared as ln(U) / total, which does not underflow for small totals.
    Candidates with a total of 0 come last, in random order; when all are 0 that is a plain shuffle.
    """

    type: ClassVar[str] = "weighted-random-picker"

    def __init__(self, name: str, generator: random.Random, *, max_endpoints: int = 1) -> None:
        self.name = name
        self.max_endpoints = max_endpoints
        self._random = generator

    @classmethod
    def build(cls, name: str, parameters: RandomParameters, context: BuildContext) -> "WeightedRandomPicker":
        """Factory for the registry."""
        return cls(name, context.random, max_endpoints=parameters.max_endpoints)

    def order(
        self, cycle: Cycle, totals: Column, _weight_sum: float, _contenders: Sequence[int] | None = None
    ) -> Iterator[Endpoint]:
        """All candidates, drawn by their totals."""
        return self._order(cycle.candidates, totals)

    def _order(self, candidates: tuple[Endpoint, ...], totals: Column) -> Iterator[Endpoint]:
        draw = self._random.random
        # 1 - draw() is in (0, 1], where the logarithm is defined.
        heap = [(-math.log(1.0 - draw()) / total, place) for place, total in enumerate(totals) if total > 0.0]
        heapq.heapify(heap)
        while heap:
            yield candidates[heapq.heappop(heap)[1]]
        zero = tuple(endpoint for endpoint, total in zip(candidates, totals, strict=True) if total <= 0.0)
        yield from shuffled(zero, self._random)
