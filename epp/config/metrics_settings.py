"""Settings of the scrapes; a section of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules

__all__ = ["MetricsSettings"]


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Scraping the endpoints."""

    refresh_interval_s: float | None = field(
        default=None,
        metadata=rules(
            "Time between two scrapes of an endpoint.",
            minimum=0.01,
            absent="500ms idle, 200ms under load",
            alias="--refresh-metrics-interval",
        ),
    )
    staleness_threshold_s: float | None = field(
        default=None,
        metadata=rules(
            "Age at which a scrape is stale; at least three times refreshInterval.",
            minimum=0.01,
            absent="2s, or three times refreshInterval if that is more",
        ),
    )
    path: str = field(
        default="/metrics",
        metadata=rules("Path of an endpoint's metrics page.", alias="--model-server-metrics-path"),
    )
    waiting_name: str | None = field(
        default=None,
        metadata=rules(
            "Gauge of the requests that wait, name or name{label=value}; it goes before the known names.",
            absent="each engine's own",
            alias="--total-queued-requests-metric",
        ),
    )
    running_name: str | None = field(
        default=None,
        metadata=rules(
            "Gauge of the requests that run, likewise.",
            absent="each engine's own",
            alias="--total-running-requests-metric",
        ),
    )
    kv_usage_name: str | None = field(
        default=None,
        metadata=rules(
            "Gauge of the share of KV blocks in use, 0 to 1, likewise.",
            absent="each engine's own",
            alias="--kv-cache-usage-percentage-metric",
        ),
    )
