"""utilization-filter."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Cycle, Volatility
from epp.scheduling.metric_reader import MetricReader
from epp.scheduling.registry import Fault, param

__all__ = ["UtilizationCondition", "UtilizationFilter", "UtilizationFilterParameters"]

_ACTIVE: Final = "active-requests"
_SCRAPED: Final[Mapping[str, str]] = {
    "running-requests": "running",
    "waiting-queue": "waiting",
    "kv-cache-utilization": "kv_usage",
}

_Reader = Callable[[Cycle], Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class UtilizationCondition:
    """One element of conditions."""

    metric: str = param(
        "",
        key="metric",
        doc="What is limited; active-requests are this router's own in flight, the others are scraped.",
        choices=(_ACTIVE, *_SCRAPED),
        required=True,
    )
    max_value: float = param(
        0.0, key="maxValue", doc="Endpoints above it are dropped.", minimum=0, required=True
    )

    def faults(self) -> Iterator[Fault]:
        """The use of the KV cache is a share."""
        if self.metric == "kv-cache-utilization" and self.max_value > 1:
            yield Fault("maxValue", "must be at most 1 for kv-cache-utilization", "write a share such as 0.9")


@dataclass(frozen=True, slots=True)
class UtilizationFilterParameters:
    """Parameters of utilization-filter."""

    conditions: tuple[UtilizationCondition, ...] = param(
        (), key="conditions", doc="Limits, all of which an endpoint must keep.", required=True
    )
    fallback_on_empty: bool = param(
        False, key="fallbackOnEmpty", doc="Keep all when none keeps the limits, instead of answering 429."
    )

    def faults(self) -> Iterator[Fault]:
        """A filter without a condition is a mistake."""
        if not self.conditions:
            yield Fault("conditions", "must not be empty", "add an element with metric and maxValue")


class UtilizationFilter:
    """Drops the endpoints that are above a limit.

    Missing data: an endpoint without a fresh and usable number for a condition keeps it.
    """

    type: ClassVar[str] = "utilization-filter"

    def __init__(
        self, name: str, conditions: Sequence[UtilizationCondition], *, fallback_on_empty: bool = False
    ) -> None:
        self.name = name
        counts_own = any(condition.metric == _ACTIVE for condition in conditions)
        self.volatility: Volatility = "request" if counts_own else "snapshot"
        self._kept: IdentityCache[tuple[Endpoint, ...]] = IdentityCache()
        self._limits = [(_reader(condition.metric), condition.max_value) for condition in conditions]
        self._fallback_on_empty = fallback_on_empty

    @classmethod
    def build(
        cls, name: str, parameters: UtilizationFilterParameters, _context: BuildContext
    ) -> "UtilizationFilter":
        """Factory for the registry."""
        return cls(name, parameters.conditions, fallback_on_empty=parameters.fallback_on_empty)

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates to keep, in the same order."""
        if self.volatility == "request":
            return self._below_limits(cycle)
        kept = self._kept.get(cycle.candidates)
        if kept is None:
            kept = self._below_limits(cycle)
            self._kept.put(cycle.candidates, kept)
        return kept

    def _below_limits(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        over = {
            place
            for read, limit in self._limits
            for place, value in enumerate(read(cycle))
            if value is not None and value > limit
        }
        if not over or (self._fallback_on_empty and len(over) == len(cycle.candidates)):
            return cycle.candidates
        return tuple(e for place, e in enumerate(cycle.candidates) if place not in over)


def _reader(metric: str) -> _Reader:
    if metric == _ACTIVE:
        return lambda cycle: cycle.slots().read(cycle.ledger.requests)
    scraped = MetricReader(_SCRAPED[metric])
    return lambda cycle: scraped.read(cycle.candidates)
