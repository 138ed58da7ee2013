"""random-picker."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle
from epp.scheduling.registry import param

__all__ = ["RandomParameters", "RandomPicker", "shuffled"]


@dataclass(frozen=True, slots=True)
class RandomParameters:
    """Parameters of random-picker and weighted-random-picker."""

    max_endpoints: int = param(
        1, key="maxNumOfEndpoints", doc="How many endpoints a gateway is told.", minimum=1
    )


class RandomPicker:
    """Orders the candidates at random, whatever their totals."""

    type: ClassVar[str] = "random-picker"

    def __init__(self, name: str, generator: random.Random, *, max_endpoints: int = 1) -> None:
        self.name = name
        self.max_endpoints = max_endpoints
        self._random = generator

    @classmethod
    def build(cls, name: str, parameters: RandomParameters, context: BuildContext) -> "RandomPicker":
        """Factory for the registry."""
        return cls(name, context.random, max_endpoints=parameters.max_endpoints)

    def order(
        self, cycle: Cycle, _totals: Column, _weight_sum: float, _contenders: Sequence[int] | None = None
    ) -> Iterator[Endpoint]:
        """All candidates in random order."""
        return shuffled(cycle.candidates, self._random)


def shuffled(candidates: tuple[Endpoint, ...], generator: random.Random) -> Iterator[Endpoint]:
    """A lazy shuffle: each step draws one of those left."""
    left = list(candidates)
    while left:
        place = int(generator.random() * len(left))
        left[place], left[-1] = left[-1], left[place]
        yield left.pop()
