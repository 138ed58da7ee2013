"""From server settings to what each adapter and the core want."""

import logging
import ssl
import time
from collections.abc import Callable

from epp.clock import Clock
from epp.compose import CoreOptions
from epp.config import Settings
from epp.config.leaf import spelled
from epp.config.model_rewrites import ANY_MODEL, ModelRewrite
from epp.director.director import Limits
from epp.director.retry import RetryPolicy
from epp.endpoints.health import HealthPolicy
from epp.errors import ConfigError, ConfigProblem
from epp.http import UpstreamSettings
from epp.observability.logs import RateLimitedLogger
from epp.proxy.settings import ProxySettings
from epp.request import ModelRewrites, RewriteRule, RewriteTarget
from epp.scrape import ScrapeSettings
from epp.scrape.engines import Selector
from epp.scrape.page import CoreNames

__all__ = [
    "core_options",
    "log_dropped_headers",
    "log_shadow_failures",
    "metric_names",
    "proxy_settings",
    "staleness_s",
    "upstream_settings",
]

_DEFAULT_STALENESS_S = 2.0


def staleness_s(settings: Settings) -> float:
    """Age at which a scrape is stale: what is set, and never less than three intervals."""
    wanted = settings.metrics.staleness_threshold_s or _DEFAULT_STALENESS_S
    return max(wanted, 3 * (settings.metrics.refresh_interval_s or 0.0))


def metric_names(settings: Settings) -> CoreNames:
    """Names of gauges that go before the engines' own.

    Raises:
        ConfigError: one is no metric.
    """
    metrics = settings.metrics
    names: dict[str, Selector | None] = {}
    problems: list[ConfigProblem] = []
    for key, text in (
        ("waiting", metrics.waiting_name),
        ("running", metrics.running_name),
        ("kv_usage", metrics.kv_usage_name),
    ):
        try:
            names[key] = Selector.parse(text) if text is not None else None
        except ValueError as error:
            problems.append(ConfigProblem(f"metrics.{spelled(key)}Name", str(error)))
    if problems:
        raise ConfigError(problems, "settings")
    return CoreNames(**names)


def core_options(
    settings: Settings,
    shadow_failed: Callable[[Exception], None] = lambda _: None,
    header_dropped: Callable[[str], None] = lambda _: None,
) -> CoreOptions:
    """Options of the decision core; who is told what the shadow raised, and which headers were dropped."""
    threshold_s = staleness_s(settings)
    return CoreOptions(
        seed=settings.seed,
        retry=RetryPolicy(
            max_executions=settings.retry.max_executions,
            budget_share=settings.retry.budget_percent / 100,
            budget_minimum=settings.retry.budget_minimum,
        ),
        limits=Limits(
            inflated_bytes=settings.max_inflated_bytes,
            inflight_per_endpoint=settings.max_inflight_per_endpoint,
        ),
        health=HealthPolicy(
            consecutive_failures=settings.health.eject_after,
            backoff_s=settings.health.ejection_time_s,
            max_backoff_s=settings.health.max_ejection_time_s,
        ),
        slow_start_s=settings.slow_start_s,
        staleness_s=lambda: threshold_s,
        scrape_interval_s=settings.metrics.refresh_interval_s or ScrapeSettings().idle_interval_s,
        objectives=settings.objective,
        rewrites=ModelRewrites(map(_rewrite_rule, settings.model_rewrite)),
        timer=time.perf_counter,
        shadow_failed=shadow_failed,
        header_dropped=header_dropped,
    )


def _rewrite_rule(rewrite: ModelRewrite) -> RewriteRule:
    models = () if rewrite.model == ANY_MODEL else (rewrite.model,)
    return RewriteRule(models, tuple(RewriteTarget(*target) for target in rewrite.targets))


def log_shadow_failures(clock: Clock) -> Callable[[Exception], None]:
    """Says that the shadow configuration failed, not more often than each half minute."""
    limited = RateLimitedLogger(logging.getLogger("epp.shadow"), clock.monotonic)

    def failed(error: Exception) -> None:
        limited.warning("shadow", f"the shadow configuration failed: {error!r}")

    return failed


def log_dropped_headers(clock: Clock) -> Callable[[str], None]:
    """Says that a plugin's header was not sent, for each name not more often than each half minute."""
    limited = RateLimitedLogger(logging.getLogger("epp.scheduling"), clock.monotonic)

    def dropped(name: str) -> None:
        limited.warning(name, f"a plugin added the header {name!r:.100} to an answer; it was not sent")

    return dropped


def upstream_settings(settings: Settings, tls: ssl.SSLContext | None = None) -> UpstreamSettings:
    """Timeouts and limits of connections to endpoints; `tls` as in `UpstreamSettings.ssl_context`."""
    upstream = settings.upstream
    return UpstreamSettings(
        connect_timeout_s=upstream.connect_timeout_s,
        first_byte_timeout_s=upstream.first_byte_timeout_s,
        idle_timeout_s=upstream.idle_timeout_s,
        total_timeout_s=upstream.total_timeout_s,
        keep_alive_s=upstream.keep_alive_s,
        max_connections_per_origin=upstream.max_connections_per_endpoint,
        ssl_context=tls,
        server_name=upstream.tls.server_name,
    )


def proxy_settings(settings: Settings) -> ProxySettings:
    """Limits and timeouts of the front door."""
    return ProxySettings(
        max_head_bytes=settings.client.max_head_bytes,
        max_headers=settings.client.max_headers,
        max_request_bytes=settings.max_request_bytes,
        max_buffered_bytes=settings.max_buffered_bytes,
        max_requests=settings.max_requests,
        head_timeout_s=settings.client.head_timeout_s,
        body_timeout_s=settings.client.body_timeout_s,
        total_timeout_s=settings.upstream.total_timeout_s,
        keep_alive_s=settings.client.keep_alive_s,
        drain_timeout_s=settings.drain_timeout_s,
        expose_endpoint=settings.receipts.expose_endpoint,
        stream_error_event=settings.stream.error_event,
    )
