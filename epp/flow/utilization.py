"""utilization-detector: saturation by what endpoints report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
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

    def saturation(self, endpoints: Sequence[Endpoint], _ledger: Ledger, now: float) -> float | None:
        """From 0 (idle) to 1 (every endpoint is at a threshold); None when nothing is known."""
        known = [
            min(1.0, share)
            for endpoint in endpoints
            if (share := self._share(endpoint)) is not None and self._is_fresh(endpoint, now)
        ]
        return sum(known) / len(known) if known else None

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates below the thresholds and the headroom above them; all when none is."""
        kept = tuple(e for e in cycle.candidates if not self._is_over(e, cycle.now))
        return kept if kept and len(kept) < len(cycle.candidates) else cycle.candidates

    def _is_over(self, endpoint: Endpoint, now: float) -> bool:
        share = self._share(endpoint)
        return share is not None and share >= self._limit and self._is_fresh(endpoint, now)

    def _share(self, endpoint: Endpoint) -> float | None:
        """How much of its thresholds the endpoint has reached, whatever the age of its metrics."""
        metrics, thresholds = endpoint.metrics, self._thresholds
        if metrics is None:
            return None
        if metrics.waiting is None:
            return None if metrics.kv_usage is None else metrics.kv_usage / thresholds.kv_usage
        waiting = metrics.waiting / thresholds.queue_depth
        return waiting if metrics.kv_usage is None else max(waiting, metrics.kv_usage / thresholds.kv_usage)

    def _is_fresh(self, endpoint: Endpoint, now: float) -> bool:
        scraped_at = self._scraped_at(endpoint.address)
        return scraped_at is not None and now - scraped_at <= self._staleness_s
