"""Discovery in Kubernetes, from the settings."""

import logging
import os
import random
from collections.abc import Mapping
from typing import Final

from epp.config import KubernetesSettings
from epp.config.kubernetes_settings import ports_of
from epp.discovery.alarm import Alarm
from epp.discovery.kubernetes.access import Access, AccessError, find_access
from epp.discovery.kubernetes.api import ApiClient
from epp.discovery.kubernetes.follower import FollowPolicy
from epp.discovery.kubernetes.members import Members
from epp.discovery.kubernetes.source import KubernetesSource, PoolName, Surroundings

__all__ = ["kubernetes_source", "namespace_of"]

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
    settings: KubernetesSettings, alarm: Alarm, priorities: dict[str, int]
) -> KubernetesSource:
    """The source that the settings ask for; it keeps `priorities` as the pool's objectives are."""

    def keep(found: Mapping[str, int]) -> None:
        priorities.clear()
        priorities.update(found)

    def new_client() -> ApiClient:
        access: Access = find_access(settings.kubeconfig, os.environ)
        return ApiClient(access, stall_s=settings.stall_timeout_s)

    target: PoolName | Members
    if settings.pool is not None:
        target = PoolName(settings.pool, settings.pool_group)
    else:
        target = Members(settings.selector or "", ports_of(settings.ports))
    around = Surroundings(
        alarm.new_pause,
        random.SystemRandom().random,
        on_priorities=keep,
        on_remark=logger.warning,
        policy=FollowPolicy(resync_s=settings.resync_interval_s),
    )
    return KubernetesSource(
        new_client, namespace_of(settings, os.environ), target, around, scheme=settings.scheme
    )
