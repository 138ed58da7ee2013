"""What the configured scorers and views read."""

from collections.abc import Mapping
from typing import Final, Literal

from epp.config.effective import EffectiveConfig, View

__all__ = ["METRIC_OF_SCORER", "Metric", "scorers_of_metrics", "views_of"]

Metric = Literal["waiting", "running", "kv_usage"]

METRIC_OF_SCORER: Final[Mapping[str, Metric]] = {
    "queue-scorer": "waiting",
    "running-requests-size-scorer": "running",
    "kv-cache-utilization-scorer": "kv_usage",
}


def scorers_of_metrics(config: EffectiveConfig) -> dict[Metric, tuple[str, ...]]:
    """Metric → names of the scorers in profiles that read it."""
    used = {scorer.name for profile in config.profiles for scorer in profile.scorers}
    readers: dict[Metric, tuple[str, ...]] = {}
    for plugin in config.plugins:
        metric = METRIC_OF_SCORER.get(plugin.type)
        if metric is not None and plugin.name in used:
            readers[metric] = (*readers.get(metric, ()), plugin.name)
    return readers


def views_of(config: EffectiveConfig, tier: Literal["gpu", "cpu"]) -> tuple[View, ...]:
    """The views that stand for a tier."""
    return tuple(view for view in config.views if view.tier == tier)
