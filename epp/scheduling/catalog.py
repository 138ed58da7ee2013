"""The plugin types of scheduling, in one list."""

from epp.scheduling.file_discovery import file_discovery_type
from epp.scheduling.filters.by_label import ByLabelFilter, ByLabelParameters
from epp.scheduling.filters.header_based_testing import HeaderBasedTestingFilter
from epp.scheduling.filters.label_selector import (
    ByLabelSelectorFilter,
    LabelSelectorFilter,
    LabelSelectorParameters,
)
from epp.scheduling.filters.prefix_affinity import PrefixAffinityFilter, PrefixAffinityParameters
from epp.scheduling.filters.role import DecodeFilter, PrefillFilter
from epp.scheduling.filters.utilization import UtilizationFilter, UtilizationFilterParameters
from epp.scheduling.handlers.single_profile import SingleProfileHandler
from epp.scheduling.inert import inert_types
from epp.scheduling.pickers.max_score import MaxScoreParameters, MaxScorePicker
from epp.scheduling.pickers.random_order import RandomParameters, RandomPicker
from epp.scheduling.pickers.weighted_random import WeightedRandomPicker
from epp.scheduling.producers.approx_prefix_cache import ApproxPrefixCacheProducer, PrefixIndexParameters
from epp.scheduling.registry import NoParameters, PluginKind, PluginType
from epp.scheduling.scorers.active_request import ActiveRequestParameters, ActiveRequestScorer
from epp.scheduling.scorers.cache_aware import CacheAwareParameters, CacheAwareScorer
from epp.scheduling.scorers.consistent_hash import ConsistentHashParameters, ConsistentHashScorer
from epp.scheduling.scorers.context_length_aware import (
    ContextLengthAwareParameters,
    ContextLengthAwareScorer,
)
from epp.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.scheduling.scorers.kv_overlap_cost import KvOverlapCostParameters, KvOverlapCostScorer
from epp.scheduling.scorers.lmetric import LmetricScorer
from epp.scheduling.scorers.load_aware import LoadAwareParameters, LoadAwareScorer
from epp.scheduling.scorers.lora_affinity import LoraAffinityScorer
from epp.scheduling.scorers.no_hit_lru import NoHitLruParameters, NoHitLruScorer
from epp.scheduling.scorers.prefix_cache import PrefixCacheScorer, PrefixCacheScorerParameters
from epp.scheduling.scorers.queue_depth import QueueScorer
from epp.scheduling.scorers.running_requests import RunningRequestsScorer
from epp.scheduling.scorers.session_affinity import (
    SessionAffinityParameters,
    SessionIdAffinity,
    build_session_affinity,
)
from epp.scheduling.scorers.token_load import TokenLoadParameters, TokenLoadScorer
from epp.scheduling.scorers.ttft_cost import TtftCostParameters, TtftCostScorer

__all__ = ["scheduling_types"]


def scheduling_types() -> list[PluginType]:
    """Filters, scorers, pickers, the handler, the producer, and what is accepted without effect."""
    scorers = [*_load_scorers(), *_affinity_scorers(), *_cost_scorers()]
    return [*_filters(), *_affinity_filters(), *scorers, *_pickers(), *_others(), *inert_types()]


def _filters() -> list[PluginType]:
    kind = PluginKind.FILTER
    return [
        PluginType(
            LabelSelectorFilter.type,
            kind,
            LabelSelectorParameters,
            LabelSelectorFilter.build,
            "Keeps the endpoints that a Kubernetes label selector selects.",
        ),
        PluginType(
            ByLabelSelectorFilter.type,
            kind,
            LabelSelectorParameters,
            ByLabelSelectorFilter.build,
            "The older name of label-selector-filter.",
            deprecated="use label-selector-filter, with the same parameters",
        ),
        PluginType(
            ByLabelFilter.type,
            kind,
            ByLabelParameters,
            ByLabelFilter.build,
            "Keeps the endpoints whose label has one of some values.",
            deprecated="use label-selector-filter, decode-filter or prefill-filter",
        ),
        PluginType(
            DecodeFilter.type,
            kind,
            NoParameters,
            DecodeFilter.build,
            "Keeps the endpoints that generate answers, by the label llm-d.ai/role.",
        ),
        PluginType(
            PrefillFilter.type,
            kind,
            NoParameters,
            PrefillFilter.build,
            "Keeps the endpoints that compute prompts for others, by the label llm-d.ai/role.",
        ),
        PluginType(
            UtilizationFilter.type,
            kind,
            UtilizationFilterParameters,
            UtilizationFilter.build,
            "Drops the endpoints that are above a limit.",
        ),
        PluginType(
            HeaderBasedTestingFilter.type,
            kind,
            NoParameters,
            HeaderBasedTestingFilter.build,
            "Keeps the endpoints that a request header names; for tests.",
        ),
    ]


def _affinity_filters() -> list[PluginType]:
    return [
        PluginType(
            PrefixAffinityFilter.type,
            PluginKind.FILTER,
            PrefixAffinityParameters,
            PrefixAffinityFilter.build,
            "Keeps the endpoints that hold most of the prompt, unless they are far behind.",
        ),
    ]


def _load_scorers() -> list[PluginType]:
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
            ActiveRequestScorer.type,
            scorer,
            ActiveRequestParameters,
            ActiveRequestScorer.build,
            "Fewer requests of this router in flight.",
        ),
        PluginType(
            LoadAwareScorer.type,
            scorer,
            LoadAwareParameters,
            LoadAwareScorer.build,
            "Fewer requests waiting, against a fixed length, as scraped.",
        ),
        PluginType(
            TokenLoadScorer.type,
            scorer,
            TokenLoadParameters,
            TokenLoadScorer.build,
            "Fewer uncached prompt tokens to compute, this request's included.",
        ),
    ]


def _cost_scorers() -> list[PluginType]:
    scorer = PluginKind.SCORER
    return [
        PluginType(
            TtftCostScorer.type,
            scorer,
            TtftCostParameters,
            TtftCostScorer.build,
            "The earliest predicted first token.",
        ),
        PluginType(
            LmetricScorer.type,
            scorer,
            NoParameters,
            LmetricScorer.build,
            "Fewer new prompt tokens times requests (LMetric).",
        ),
        PluginType(
            KvOverlapCostScorer.type,
            scorer,
            KvOverlapCostParameters,
            KvOverlapCostScorer.build,
            "Fewer blocks to prefill and in use (Dynamo).",
        ),
        PluginType(
            CacheAwareScorer.type,
            scorer,
            CacheAwareParameters,
            CacheAwareScorer.build,
            "The longest match while load is balanced, else the least load (SGLang).",
        ),
        PluginType(
            ConsistentHashScorer.type,
            scorer,
            ConsistentHashParameters,
            ConsistentHashScorer.build,
            "The same head to the same endpoint, with bounded load.",
        ),
    ]


def _affinity_scorers() -> list[PluginType]:
    scorer = PluginKind.SCORER
    return [
        PluginType(
            PrefixCacheScorer.type,
            scorer,
            PrefixCacheScorerParameters,
            PrefixCacheScorer.build,
            "A longer cached prefix of the request.",
        ),
        PluginType(
            NoHitLruScorer.type,
            scorer,
            NoHitLruParameters,
            NoHitLruScorer.build,
            "Spreads requests that nobody has cached.",
        ),
        PluginType(
            LoraAffinityScorer.type,
            scorer,
            NoParameters,
            LoraAffinityScorer.build,
            "The request's adapter is loaded, or there is room for it.",
        ),
        PluginType(
            SessionIdAffinity.type,
            scorer,
            SessionAffinityParameters,
            build_session_affinity,
            "The endpoint that the client's session had before.",
        ),
        PluginType(
            ContextLengthAwareScorer.type,
            scorer,
            ContextLengthAwareParameters,
            ContextLengthAwareScorer.build,
            "The endpoint is labelled for prompts of this length.",
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
