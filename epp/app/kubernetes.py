"""Discovery in Kubernetes, from the settings."""

import asyncio
import logging
import os
import random
import socket
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from epp.app.metrics_access import MetricsAccess
from epp.clock import Clock
from epp.config import KubernetesSettings, Settings
from epp.config.kubernetes_settings import ports_of
from epp.discovery.alarm import Alarm
from epp.discovery.kubernetes.access import AccessError, find_access
from epp.discovery.kubernetes.api import ApiClient, Resource
from epp.discovery.kubernetes.exec_credentials import ExecCommand, ExecToken
from epp.discovery.kubernetes.follower import FollowPolicy
from epp.discovery.kubernetes.lease import LeaderElection, lease_name
from epp.discovery.kubernetes.members import Members
from epp.discovery.kubernetes.reviews import Reviewer
from epp.discovery.kubernetes.source import KubernetesSource, PoolName, Surroundings
from epp.request import ModelRewrites

__all__ = ["kubernetes_source", "leader_election", "metrics_access", "namespace_of"]

logger = logging.getLogger("epp.discovery")

_NOWHERE: Final = "default"


def namespace_of(settings: KubernetesSettings, environ: Mapping[str, str]) -> str:
    """The namespace that is set, else the variable NAMESPACE, else that of the credentials."""
    named = settings.namespace or environ.get("NAMESPACE")
    if named:
        return named
    try:
        return find_access(settings.kubeconfig, environ).namespace
    except AccessError:
        return _NOWHERE  # the source says what is wrong, and goes on trying


def kubernetes_source(
    settings: KubernetesSettings, alarm: Alarm, priorities: dict[str, int], rewrites: ModelRewrites | None
) -> KubernetesSource:
    """The source that the settings ask for.

    It keeps `priorities` as the pool's objectives are, `rewrites` as its model rewrites (None: not applied).
    """

    def keep(found: Mapping[str, int]) -> None:
        priorities.clear()
        priorities.update(found)

    target: PoolName | Members
    if settings.pool is not None:
        target = PoolName(settings.pool, settings.pool_group)
    else:
        target = Members(settings.selector or "", ports_of(settings.ports))
    around = Surroundings(
        alarm.new_pause,
        random.SystemRandom().random,
        on_priorities=keep,
        on_rewrites=rewrites.use_found if rewrites is not None else None,
        on_remark=logger.warning,
        on_note=logger.info,
        policy=FollowPolicy(resync_s=settings.resync_interval_s),
    )
    return KubernetesSource(
        _clients(settings), namespace_of(settings, os.environ), target, around, scheme=settings.scheme
    )


def leader_election(settings: Settings, clock: Clock) -> LeaderElection:
    """The election in which this replica takes part."""
    kubernetes = settings.kubernetes
    namespace = namespace_of(kubernetes, os.environ)

    async def pause(seconds: float | None) -> bool:
        await asyncio.sleep(seconds or 0.0)
        return False

    return LeaderElection(
        _clients(kubernetes),
        Resource("coordination.k8s.io", "v1", "leases", namespace),
        lease_name(namespace, kubernetes.pool or settings.pool_name),
        f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}",
        clock=clock,
        today=lambda: datetime.now(UTC),
        pause=pause,
        on_change=lambda change: logger.info("leader election: %s", change),
    )


def metrics_access(settings: KubernetesSettings, clock: Clock) -> MetricsAccess:
    """What asks the API server who may read /metrics."""
    return MetricsAccess(Reviewer(_clients(settings), clock), clock)


def _clients(settings: KubernetesSettings) -> Callable[[], ApiClient]:
    """Makes clients that share the tokens of a kubeconfig's command."""
    plugins: dict[ExecCommand, ExecToken] = {}

    def new_client() -> ApiClient:
        access = find_access(settings.kubeconfig, os.environ, plugins=plugins)
        return ApiClient(access, stall_s=settings.stall_timeout_s)

    return new_client
