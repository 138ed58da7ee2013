"""utilization-detector: saturation by what endpoints report."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint, EndpointMetrics
from epp.scheduling.contracts import BuildContext, Cycle, Volatility
from epp.scheduling.registry import param

__all__ = ["Thresholds", "UtilizationDetector", "UtilizationDetectorParameters"]

_DEFAULT_STALENESS_S: Final = 0.2
_INTERVALS: Final = 3


@dataclass(frozen=True, slots=True)
class UtilizationDetectorParameters:
    """Parameters of utilization-detector, and of the section saturationDetector of GIE 1.2 to 1.4."""

    queue_depth: int = param(
        5, key="queueDepthThreshold", doc="Requests waiting at which an endpoint is saturated.", above=0
    )
    kv_usage: float = param(
        0.8,
        key="kvCacheUtilThreshold",
        doc="Share of KV blocks in use at which it is.",
        above=0,
        maximum=1,
    )
    staleness_s: float | None = param(
        None,
        key="metricsStalenessThreshold",
        doc="Age at which a scrape tells nothing; at least three scrape intervals. The Go picker: 200ms.",
        above=0,
        duration=True,
    )
    headroom: float = param(
        0.0,
        key="headroom",
        doc="As a filter: how far above the thresholds an endpoint may be, as a share of them.",
        minimum=0,
    )
    staleness_policy: str = param(
        "ignore",
        key="stalenessPolicy",
        doc="What a stale endpoint counts: nothing. That it counts as saturated is not supported.",
        choices=("ignore",),
    )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where an endpoint is saturated: requests waiting, share of KV blocks in use."""

    queue_depth: float = 5.0
    kv_usage: float = 0.8


@dataclass(frozen=True, slots=True)
class _Told:
    """How much of its thresholds an endpoint has reached, by its last scrape."""

    slot: int
    address: str
    share: float


class UtilizationDetector:
    """Saturation from requests waiting and KV blocks in use, as scraped.

    Formula: an endpoint's is max(q / queueDepthThreshold, u / kvCacheUtilThreshold), at most 1; the pool's
    their mean. So the pool is at 1 when every endpoint is at a threshold: the rule of GIE 1.2. The Go picker
    from 1.5 on has no such limit for one endpoint, so that one long queue sheds for an idle fleet.
    Missing data: an endpoint whose scrape is stale, never came, or tells neither number, does not count,
    neither as saturated nor as free; None when none does. One number that is missing leaves the other.
    """

    type: ClassVar[str] = "utilization-detector"
    volatility: Volatility = "request"

    def __init__(
        self,
        name: str,
        scraped_at: Callable[[str], float | None],
        *,
        thresholds: Thresholds | None = None,
        staleness_s: float,
        headroom: float = 0.0,
    ) -> None:
        """`scraped_at` tells an endpoint's last good scrape in monotonic seconds, by address."""
        self.name = name
        self._scraped_at = scraped_at
        self._thresholds = thresholds or Thresholds()
        self._staleness_s = staleness_s
        self._limit = 1.0 + headroom
        self._shares: IdentityCache[tuple[_Told, ...]] = IdentityCache()

    @classmethod
    def build(
        cls, name: str, parameters: UtilizationDetectorParameters, context: BuildContext
    ) -> "UtilizationDetector":
        """Factory for the registry; says so when it raises the staleness threshold."""
        wanted_s = parameters.staleness_s
        least_s = _INTERVALS * context.scrape_interval_s
        if wanted_s is not None and wanted_s < least_s:
            context.warn(
                f"{name}: metricsStalenessThreshold {wanted_s:g}s is raised to {least_s:g}s, three scrape "
                "intervals: with less, every scrape would be stale before the next comes"
            )
        return cls(
            name,
            context.scraped_at,
            thresholds=Thresholds(parameters.queue_depth, parameters.kv_usage),
            staleness_s=max(wanted_s or _DEFAULT_STALENESS_S, least_s),
            headroom=parameters.headroom,
        )

    def saturation(self, endpoints: tuple[Endpoint, ...], _ledger: Ledger, now: float) -> float | None:
        """From 0 (idle) to 1 (every endpoint is at a threshold); None when nothing is known."""
        known = [min(1.0, told.share) for told in self._told(endpoints) if self._is_fresh(told.address, now)]
        return sum(known) / len(known) if known else None

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates below the thresholds and the headroom above them; all when none is."""
        limit = self._limit
        over = {
            told.slot
            for told in self._told(cycle.candidates)
            if told.share >= limit and self._is_fresh(told.address, cycle.now)
        }
        if not over or len(over) == len(cycle.candidates):
            return cycle.candidates
        return tuple(e for e in cycle.candidates if e.slot not in over)

    def _told(self, endpoints: tuple[Endpoint, ...]) -> tuple[_Told, ...]:
        """Those of `endpoints` that tell a number, whatever its age."""
        told = self._shares.get(endpoints)
        if told is None:
            shares = ((e, _share(e.metrics, self._thresholds)) for e in endpoints)
            told = tuple(_Told(e.slot, e.address, share) for e, share in shares if share is not None)
            self._shares.put(endpoints, told)
        return told

    def _is_fresh(self, address: str, now: float) -> bool:
        scraped_at = self._scraped_at(address)
        return scraped_at is not None and now - scraped_at <= self._staleness_s


def _share(metrics: EndpointMetrics | None, thresholds: Thresholds) -> float | None:
    """How much of its thresholds an endpoint has reached."""
    if metrics is None:
        return None
    numbers = ((metrics.waiting, thresholds.queue_depth), (metrics.kv_usage, thresholds.kv_usage))
    return max((value / most for value, most in numbers if value is not None), default=None)
