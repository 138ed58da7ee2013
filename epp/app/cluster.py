"""What settings ask of a Kubernetes cluster; its client takes 0.1 s to load and is loaded for that alone."""

from typing import TYPE_CHECKING

from epp.clock import Clock
from epp.config import Settings
from epp.discovery.alarm import Alarm
from epp.discovery.source import Source
from epp.request import ModelRewrites

if TYPE_CHECKING:
    from epp.app.metrics_access import MetricsAccess
    from epp.discovery.kubernetes.lease import LeaderElection

__all__ = ["cluster_sources", "election_of", "metrics_access_of"]


def cluster_sources(
    settings: Settings, alarm: Alarm, priorities: dict[str, int], rewrites: ModelRewrites | None
) -> list[Source]:
    """The source of endpoints in the cluster, if a pool or a selector is named."""
    if not (settings.kubernetes.pool or settings.kubernetes.selector):
        return []
    from epp.app.kubernetes import kubernetes_source  # noqa: PLC0415

    return [kubernetes_source(settings.kubernetes, alarm, priorities, rewrites)]


def election_of(settings: Settings, clock: Clock) -> "LeaderElection | None":
    """The election in which this replica takes part, None where it takes part in none."""
    if not settings.kubernetes.leader_election:
        return None
    from epp.app.kubernetes import leader_election  # noqa: PLC0415

    return leader_election(settings, clock)


def metrics_access_of(settings: Settings, clock: Clock) -> "MetricsAccess | None":
    """What asks the API server who may read /metrics, None where nobody is asked."""
    if not settings.kubernetes.metrics_auth:
        return None
    from epp.app.kubernetes import metrics_access  # noqa: PLC0415

    return metrics_access(settings.kubernetes, clock)
