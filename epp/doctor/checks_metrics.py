"""Is everything that the configured scorers read on the metrics page, under a name that stays."""

from collections.abc import Iterator, Mapping
from typing import Final

from epp.config.effective import EffectiveConfig
from epp.config.settings import Settings
from epp.doctor.finding import Finding, finding
from epp.doctor.needs import Metric, scorers_of_metrics
from epp.doctor.observation import Observation
from epp.endpoints.types import EndpointMetrics
from epp.scrape.engines import ENGINES, Engine, Selector

__all__ = ["check_metrics", "interval_s"]

_IDLE_INTERVAL_S: Final = 0.5
_NEUTRAL: Final = "is neutral for this endpoint, whatever its load"
_LOST_COLONS: Final = ("vllm_", "sglang_")

# Dropped by vLLM 0.12; epp reads them where the new ones are missing.
_OLD_NAMES: Final[Mapping[str, str]] = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
}


def check_metrics(seen: Observation, config: EffectiveConfig, settings: Settings) -> Iterator[Finding]:
    """The page as a whole, then each metric."""
    readers = scorers_of_metrics(config)
    if seen.metrics is None:
        yield _no_page(seen, readers)
        return
    if seen.metrics.engine is None:
        yield _unknown_engine(seen, readers)
        return
    yield from _missing(seen, seen.metrics, readers)
    yield from _renamed(seen)
    yield from _impossible(seen)
    yield from _slow(seen, settings)
    yield from _restart(seen, seen.metrics)


def interval_s(settings: Settings) -> float:
    """Time between two scrapes of an idle endpoint."""
    return settings.metrics.refresh_interval_s or _IDLE_INTERVAL_S


def _blinded(readers: Mapping[Metric, tuple[str, ...]]) -> str:
    names = [name for scorers in readers.values() for name in scorers]
    blind = f"{', '.join(names)} {_NEUTRAL}; " if names else ""
    return f"{blind}tier sizes, block size and restarts are unknown"


def _no_page(seen: Observation, readers: Mapping[Metric, tuple[str, ...]]) -> Finding:
    if seen.page.ok:
        return finding(
            "metrics-unreadable",
            seen.address,
            f"{seen.page_path}: {seen.page_fault}",
            _blinded(readers),
            "point metrics.path at the engine's own page, in Prometheus text format and uncompressed",
        )
    return finding(
        "metrics-unanswered",
        seen.address,
        seen.page.shown(seen.page_path),
        _blinded(readers),
        "let the engine serve metrics (vLLM: without --disable-log-stats; SGLang: --enable-metrics), or set "
        "metrics.path; TensorRT-LLM's is /prometheus/metrics",
    )


def _unknown_engine(seen: Observation, readers: Mapping[Metric, tuple[str, ...]]) -> Finding:
    lost = sorted(name for name in seen.names if name.startswith(_LOST_COLONS))
    if lost:
        shown = f"the page has {lost[0]} and no name with a colon"
        remedy = "scrape the engine itself: something between has rewritten the names (vllm: to vllm_)"
    else:
        shown = f"{len(seen.names)} names, none of vLLM, SGLang or TensorRT-LLM"
        remedy = (
            "point --endpoint at the engine, not at a proxy or exporter; vLLM: without --disable-log-stats, "
            "SGLang: --enable-metrics"
        )
    return finding("engine-unknown", seen.address, f"{seen.page_path}: {shown}", _blinded(readers), remedy)


def _missing(
    seen: Observation, metrics: EndpointMetrics, readers: Mapping[Metric, tuple[str, ...]]
) -> Iterator[Finding]:
    engine = next(engine for engine in ENGINES if engine.name == metrics.engine)
    for metric, scorers in readers.items():
        if getattr(metrics, metric) is not None or metric in seen.rejected:
            continue
        names = [_shown(selector) for selector in _selectors(engine, metric)]
        yield finding(
            "metric-missing",
            seen.address,
            f"{seen.page_path} has none of {', '.join(names)}",
            f"{', '.join(scorers)} {_NEUTRAL}",
            "run the engine with its statistics on (vLLM: without --disable-log-stats)"
            if metrics.engine == "vllm"
            else "switch the engine's metrics on, or take the scorer out of the profile",
        )


def _selectors(engine: Engine, metric: Metric) -> tuple[Selector, ...]:
    selectors: Mapping[Metric, tuple[Selector, ...]] = {
        "waiting": engine.waiting,
        "running": engine.running,
        "kv_usage": engine.kv_usage,
    }
    return selectors[metric]


def _shown(selector: Selector) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in selector.labels)
    return f"{selector.name}{{{labels}}}" if labels else selector.name


def _renamed(seen: Observation) -> Iterator[Finding]:
    for old, new in _OLD_NAMES.items():
        if old in seen.names and new not in seen.names:
            yield finding(
                "metric-renamed",
                seen.address,
                f"{old}, not {new}",
                "epp reads both; vLLM hides the old name from 0.11 on and dropped it in 0.12, and other "
                "tools may read only one",
                "upgrade vLLM to 0.9.2 or newer, and your dashboards with it",
            )


def _impossible(seen: Observation) -> Iterator[Finding]:
    for name in sorted(seen.rejected):
        yield finding(
            "metric-impossible",
            seen.address,
            f"{name} is NaN, infinite, negative or over its maximum",
            "the value is refused; the last good one stands in until it is stale, then it is unknown",
            "restart the engine if it lasts",
        )


def _slow(seen: Observation, settings: Settings) -> Iterator[Finding]:
    if seen.page.took_s > interval_s(settings):
        yield finding(
            "metrics-slow",
            seen.address,
            f"{seen.page_path} took {seen.page.took_s:.2f} s, the interval is {interval_s(settings):g} s",
            "scorers of load look at values that are old already; after 2 s a scrape is given up",
            "find out what delays the page (a network in between, a starved API process), or raise "
            "metrics.refreshInterval",
        )


def _restart(seen: Observation, metrics: EndpointMetrics) -> Iterator[Finding]:
    if metrics.process_start is None:
        yield finding(
            "restart-untold",
            seen.address,
            "no process_start_time_seconds",
            "a restart, which empties the caches, is noticed only by counters that go backwards",
            "none needed; vLLM leaves it out with --api-server-count above 1",
        )
