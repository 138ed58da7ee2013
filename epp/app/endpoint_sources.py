"""Which discovery sources settings and configuration ask for."""

from epp.app.cluster import cluster_sources
from epp.config import EffectiveConfig, Settings
from epp.config.discovery_settings import DiscoverySettings
from epp.config.endpoint_file import MAX_FILE_BYTES, read_endpoint_file
from epp.discovery.alarm import Alarm
from epp.discovery.dns import DnsPolicy, DnsSource
from epp.discovery.file import FileSource
from epp.discovery.source import Source
from epp.discovery.static import StaticSource
from epp.discovery.watched_file import WatchedFile
from epp.request import ModelRewrites

__all__ = ["endpoint_sources", "has_sources"]


def has_sources(settings: Settings, config: EffectiveConfig) -> bool:
    """Whether anything says where endpoints are."""
    found = settings.discovery
    cluster = settings.kubernetes
    named = cluster.pool or cluster.selector
    return bool(settings.endpoint or found.file or found.dns or config.discovery or named)


def endpoint_sources(
    settings: Settings,
    config: EffectiveConfig,
    alarm: Alarm,
    priorities: dict[str, int] | None = None,
    rewrites: ModelRewrites | None = None,
) -> list[Source]:
    """In the order in which they decide where they contradict each other; `alarm` cuts their pauses short.

    `priorities` and `rewrites` are kept as the objectives and model rewrites in Kubernetes are.
    """
    found = settings.discovery
    sources: list[Source] = [StaticSource(settings.endpoint)] if settings.endpoint else []
    if found.file is not None:
        sources.append(_file(found.file, found.file_interval_s, alarm))
    if config.discovery is not None and config.discovery.path != found.file:
        watch = config.discovery.watch
        sources.append(_file(config.discovery.path, found.file_interval_s, alarm, watch=watch))
    if found.dns:
        sources += _dns(found, alarm)
    return sources + cluster_sources(settings, alarm, {} if priorities is None else priorities, rewrites)


def _dns(found: DiscoverySettings, alarm: Alarm) -> list[Source]:
    from epp.discovery.dnspython_resolver import DnspythonResolver  # noqa: PLC0415  few need it, and it loads slowly

    policy = DnsPolicy(found.dns_min_interval_s, found.dns_max_interval_s, found.dns_confirmations)
    resolver = DnspythonResolver()
    return [DnsSource(name, resolver, pause=alarm.new_pause(), policy=policy) for name in found.dns]


def _file(path: str, interval_s: float, alarm: Alarm, *, watch: bool = True) -> FileSource:
    file = WatchedFile(path, MAX_FILE_BYTES)
    return FileSource(file, read_endpoint_file, pause=alarm.new_pause(), interval_s=interval_s, watch=watch)
