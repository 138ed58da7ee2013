"""no-hit-lru-scorer."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle, SegmentColumn, Volatility
from epp.scheduling.producers.approx_prefix_cache import resolve_producer
from epp.scheduling.registry import param

__all__ = ["NoHitLruParameters", "NoHitLruScorer"]


@dataclass(frozen=True, slots=True)
class NoHitLruParameters:
    """Parameters of no-hit-lru-scorer."""

    lru_size: int = param(
        1024, key="lruSize", doc="How many endpoints the memory of cold picks holds.", above=0
    )
    producer_name: str | None = param(
        None,
        key="prefixMatchInfoProducerName",
        doc="The producer that tells whether a request is cold; absent: it is cold when none knows it.",
    )


class NoHitLruScorer:
    """Spreads requests that nobody has cached over the endpoints that got such a request longest ago.

    Formula: some candidate matches: 0.5 for each. Cold: the N candidates are ranked, first those that never
    got a cold request, in their order, then the others, oldest first; score = 1 - rank / (N - 1), 1.0 when
    N = 1. The Go picker lets endpoints that are gone count in the rank; here only candidates do.
    Missing data: no match known is cold.
    Ties: none when cold; all equal when not.
    """

    type: ClassVar[str] = "no-hit-lru-scorer"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, lru_size: int = 1024, producer: str | None = None) -> None:
        self.name = name
        self._lru_size = lru_size
        self._producer = producer
        self._cold_picks: OrderedDict[tuple[str, int], None] = OrderedDict()  # oldest first

    @classmethod
    def build(cls, name: str, parameters: NoHitLruParameters, context: BuildContext) -> "NoHitLruScorer":
        """Factory for the registry.

        Raises:
            ConfigError: the named producer does not exist.
        """
        named = parameters.producer_name
        producer = resolve_producer(name, named, context) if named else None
        return cls(name, parameters.lru_size, producer)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        count = len(cycle.candidates)
        if not self._is_cold(cycle):
            return SegmentColumn(cycle.slots(), 0.5)
        if count == 1:
            return [1.0]
        column = [0.0] * count
        for rank, place in enumerate(self._ranked(cycle.candidates)):
            column[place] = 1.0 - rank / (count - 1)
        return column

    def on_picked(self, cycle: Cycle, endpoint: Endpoint) -> None:
        """Remember the pick if the request was cold."""
        if not self._is_cold(cycle):
            return
        self._cold_picks[_key(endpoint)] = None
        self._cold_picks.move_to_end(_key(endpoint))
        if len(self._cold_picks) > self._lru_size:
            self._cold_picks.popitem(last=False)

    def _is_cold(self, cycle: Cycle) -> bool:
        names = cycle.matches if self._producer is None else (self._producer,)
        matches = [cycle.matches[name] for name in names if name in cycle.matches]
        candidates = cycle.slots().mask
        return not any(mask & candidates for match in matches for mask, _ in match.segments)

    def _ranked(self, candidates: tuple[Endpoint, ...]) -> list[int]:
        """Indices of the candidates: never picked cold first, then by age of their last cold pick."""
        place_of = {_key(endpoint): place for place, endpoint in enumerate(candidates)}
        picked = [place_of[key] for key in self._cold_picks if key in place_of]
        never = [place for key, place in place_of.items() if key not in self._cold_picks]
        return never + picked


def _key(endpoint: Endpoint) -> tuple[str, int]:
    # A slot alone may have a new owner, and a restarted endpoint starts empty.
    return endpoint.address, endpoint.incarnation
