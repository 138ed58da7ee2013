"""The plugin types of this router, in one list."""

from epp.scheduling.file_discovery import file_discovery_type
from epp.scheduling.handlers.single_profile import SingleProfileHandler
from epp.scheduling.inert import inert_types
from epp.scheduling.pickers.max_score import MaxScoreParameters, MaxScorePicker
from epp.scheduling.pickers.random_order import RandomParameters, RandomPicker
from epp.scheduling.pickers.weighted_random import WeightedRandomPicker
from epp.scheduling.producers.approx_prefix_cache import ApproxPrefixCacheProducer, PrefixIndexParameters
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry
from epp.scheduling.scorers.active_request import ActiveRequestParameters, ActiveRequestScorer
from epp.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.scheduling.scorers.no_hit_lru import NoHitLruParameters, NoHitLruScorer
from epp.scheduling.scorers.prefix_cache import PrefixCacheScorer, PrefixCacheScorerParameters
from epp.scheduling.scorers.queue_depth import QueueScorer
from epp.scheduling.scorers.running_requests import RunningRequestsScorer

__all__ = ["default_registry"]


def default_registry() -> Registry:
    """All plugin types that configuration may name."""
    return Registry([*_scorers(), *_pickers(), *_others(), *inert_types()])


def _scorers() -> list[PluginType]:
    scorer = PluginKind.SCORER
    return [
        PluginType(
            QueueScorer.type, scorer, NoParameters, QueueScorer.build, "Fewer requests waiting, as scraped."
        ),
        PluginType(
            RunningRequestsScorer.type,
            scorer,
            NoParameters,
            RunningRequestsScorer.build,
            "Fewer requests running, as scraped.",
        ),
        PluginType(
            KvCacheUtilizationScorer.type,
            scorer,
            NoParameters,
            KvCacheUtilizationScorer.build,
            "More free KV blocks, as scraped.",
        ),
        PluginType(
            PrefixCacheScorer.type,
            scorer,
            PrefixCacheScorerParameters,
            PrefixCacheScorer.build,
            "A longer cached prefix of the request.",
        ),
        PluginType(
            ActiveRequestScorer.type,
            scorer,
            ActiveRequestParameters,
            ActiveRequestScorer.build,
            "Fewer requests of this router in flight.",
        ),
        PluginType(
            NoHitLruScorer.type,
            scorer,
            NoHitLruParameters,
            NoHitLruScorer.build,
            "Spreads requests that nobody has cached.",
        ),
    ]


def _pickers() -> list[PluginType]:
    picker = PluginKind.PICKER
    return [
        PluginType(
            MaxScorePicker.type, picker, MaxScoreParameters, MaxScorePicker.build, "The highest total first."
        ),
        PluginType(RandomPicker.type, picker, RandomParameters, RandomPicker.build, "Any order."),
        PluginType(
            WeightedRandomPicker.type,
            picker,
            RandomParameters,
            WeightedRandomPicker.build,
            "At random, by share of the totals.",
        ),
    ]


def _others() -> list[PluginType]:
    return [
        PluginType(
            SingleProfileHandler.type,
            PluginKind.HANDLER,
            NoParameters,
            SingleProfileHandler.build,
            "Runs the one profile.",
        ),
        PluginType(
            ApproxPrefixCacheProducer.type,
            PluginKind.PRODUCER,
            PrefixIndexParameters,
            ApproxPrefixCacheProducer.build,
            "One view of the prefix index.",
        ),
        file_discovery_type(),
    ]
