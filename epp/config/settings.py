"""The server's settings: one tree of names. `Settings()` holds the defaults; see `leaf` for the names.

Where 0 has a meaning of its own, the setting's text says which.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Final

from epp.config.cors_settings import CorsSettings
from epp.config.discovery_settings import DiscoverySettings
from epp.config.gateway_settings import GrpcSettings
from epp.config.kubernetes_settings import KubernetesSettings
from epp.config.leaf import Leaf, Secret, leaf_of, rules
from epp.config.log_settings import AccessLogSettings, LogSettings
from epp.config.metrics_settings import MetricsSettings
from epp.config.model_rewrites import ModelRewrite
from epp.config.path_rules import PathRule
from epp.config.security_settings import AdminTlsSettings, ApiKeySettings, EndpointTlsSettings, TlsSettings
from epp.config.state_settings import StateSettings
from epp.endpoints.types import EndpointSpec
from epp.flow.admission import Objective
from epp.security import Network

__all__ = [
    "AccessLogSettings", "ClientSettings", "DiscoverySettings", "GrpcSettings", "HealthSettings",
    "KubernetesSettings", "LogSettings", "MetricsSettings", "ReceiptSettings", "RetrySettings", "Settings",
    "StateSettings", "StreamSettings", "UpstreamSettings", "leaves", "sections",
]  # fmt: skip

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_TICK_S: Final = 0.001  # least value of durations for which 0 would mean "never"


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Connections to the endpoints."""

    connect_timeout_s: float = field(
        default=5.0, metadata=rules("Time to connect to an endpoint.", minimum=_TICK_S)
    )
    first_byte_timeout_s: float = field(
        default=600.0,
        metadata=rules(
            "Time from the request to the answer's first byte; a long prefill takes minutes. 0: no limit."
        ),
    )
    idle_timeout_s: float = field(
        default=300.0, metadata=rules("Time between two bytes of an answer. 0: no limit.")
    )
    total_timeout_s: float = field(
        default=0.0, metadata=rules("Time from the request to the end of the answer. 0: no limit.")
    )
    keep_alive_s: float = field(
        default=3.0,
        metadata=rules(
            "How long an unused connection is kept; vLLM closes it after 5 s. 0: every request connects anew."
        ),
    )
    max_connections_per_endpoint: int = field(
        default=0, metadata=rules("Most connections to one endpoint. 0: no limit.")
    )
    tls: EndpointTlsSettings = field(default_factory=EndpointTlsSettings)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Connections of clients."""

    head_timeout_s: float = field(
        default=10.0,
        metadata=rules("Time in which a request's head must arrive; 408 after.", minimum=_TICK_S),
    )
    body_timeout_s: float = field(
        default=120.0,
        metadata=rules("Time in which a request's body must arrive; 408 after.", minimum=_TICK_S),
    )
    keep_alive_s: float = field(
        default=650.0,
        metadata=rules("How long an unused connection is kept; longer than any gateway keeps it."),
    )
    max_head_bytes: int = field(
        default=64 * _KIB,
        metadata=rules("Most bytes of request line and headers together; 431 above.", minimum=_KIB),
    )
    max_headers: int = field(default=200, metadata=rules("Most header lines; 431 above.", minimum=1))


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Sending a request again, before a byte of the answer has gone to the client."""

    max_executions: int = field(
        default=3, metadata=rules("Most executions of one request, the first included.", minimum=1)
    )
    budget_percent: int = field(
        default=20,
        metadata=rules(
            "Repeats after a 500 or 503, in percent of the requests of the last 10 s.", maximum=100
        ),
    )
    budget_minimum: int = field(
        default=3, metadata=rules("Such repeats that are allowed however few requests there are.")
    )


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Passive health: an endpoint that fails is left out for a while."""

    eject_after: int = field(
        default=3,
        metadata=rules(
            "Connection failures or first-byte timeouts in a row that eject an endpoint.", minimum=1
        ),
    )
    ejection_time_s: float = field(
        default=5.0,
        metadata=rules("Length of the first ejection; each further one is longer.", minimum=_TICK_S),
    )
    max_ejection_time_s: float = field(
        default=60.0, metadata=rules("Longest ejection; not less than ejectionTime.", minimum=_TICK_S)
    )


@dataclass(frozen=True, slots=True)
class ReceiptSettings:
    """What is told of decisions."""

    expose_endpoint: bool = field(
        default=True,
        metadata=rules("Send x-epp-endpoint, the address that answered, with every response."),
    )
    keep: int = field(default=1000, metadata=rules("Receipts that are kept for /debug/decisions."))
    loopback: bool = field(
        default=True,
        metadata=rules(
            "Show receipts and /debug to callers on loopback; false where a sidecar forwards from there."
        ),
    )


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Streamed answers."""

    error_event: bool = field(
        default=False,
        metadata=rules("Send an SSE error event before aborting a stream that broke off upstream."),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything but the scheduling decisions."""

    host: str = field(default="0.0.0.0", metadata=rules("Address to listen on."))
    port: int = field(default=8080, metadata=rules("Port to listen on. 0: any free one.", maximum=65535))
    admin_port: int = field(
        default=0,
        metadata=rules(
            "Port of a second listener, to which health, metrics and debugging move. 0: none, they stay.",
            maximum=65535,
            alias="--metrics-port",
        ),
    )
    endpoint: tuple[EndpointSpec, ...] = field(
        default=(),
        metadata=rules(
            "A model server: URL, or URL,label=value,… Repeatable; in the variable, separated by blanks.",
            absent="none",
        ),
    )
    config: str | None = field(
        default=None,
        metadata=rules(
            "File with the EndpointPickerConfig.",
            absent="the built-in config/default.yaml",
            alias="--config-file",
        ),
    )
    config_text: str | None = field(
        default=None, metadata=rules("The EndpointPickerConfig itself, instead of a file.", absent="none")
    )
    config_interval_s: float = field(
        default=1.0,
        metadata=rules(
            "Time between two looks at the files of config and shadowConfig, whose changes are applied while "
            "running. 0: only on SIGHUP."
        ),
    )
    shadow_config: str | None = field(
        default=None,
        metadata=rules(
            "File with an EndpointPickerConfig that decides beside the one in effect and is only compared.",
            absent="none",
        ),
    )
    objective: tuple[Objective, ...] = field(
        default=(),
        metadata=rules(
            "Priority of the requests that name the objective in x-llm-d-inference-objective; a mapping in "
            "the file. Below 0 they get 429 while the pool is saturated.",
            absent="none; every request has priority 0",
        ),
    )
    model_rewrite: tuple[ModelRewrite, ...] = field(
        default=(),
        metadata=rules(
            "Model that requests for another go to: `m=m-v2`, `m=9*m-v1,1*m-v2`; `*` is any. See below.",
            absent="none",
        ),
    )
    pool_name: str = field(default="default", metadata=rules("Name of the pool in metrics."))
    drain_timeout_s: float = field(
        default=30.0,
        metadata=rules("Time for requests in flight to end after SIGTERM; what is left gets 503."),
    )
    max_request_bytes: int = field(
        default=64 * _MIB, metadata=rules("Largest request body; 413 above.", minimum=1)
    )
    max_inflated_bytes: int = field(
        default=64 * _MIB,
        metadata=rules("Most bytes that a compressed request body may inflate to; 413 above.", minimum=1),
    )
    max_buffered_bytes: int = field(
        default=1024 * _MIB,
        metadata=rules("Most bytes of all request bodies held at a time; 503 above.", minimum=1),
    )
    max_requests: int = field(default=0, metadata=rules("Most requests at a time; 503 above. 0: no limit."))
    max_inflight_per_endpoint: int = field(
        default=0,
        metadata=rules("Most requests in flight to one endpoint; 429 when all are full. 0: no limit."),
    )
    slow_start_s: float = field(
        default=30.0, metadata=rules("Time in which a new endpoint is brought to its full share. 0: at once.")
    )
    seed: int | None = field(
        default=None, metadata=rules("Seed of the random choices among ties.", absent="random")
    )
    record: str | None = field(
        default=None,
        metadata=rules(
            "File that gets all that decisions depend on, and the decisions, to be replayed by epp simulate. "
            "Prompts are in it as hashes, credentials are not.",
            absent="none",
        ),
    )
    record_max_bytes: int = field(
        default=1024 * _MIB,
        metadata=rules("Size at which a recording ends; the router goes on. 0: no limit."),
    )
    allow_engine_admin: bool = field(
        default=False,
        metadata=rules("Serve the engines' administration routes (/sleep, …), which else answer 403."),
    )
    lane: str = field(
        default="fast",
        metadata=rules("How inference is relayed; both do the same.", choices=("fast", "asgi")),
    )
    path_rules: tuple[PathRule, ...] = field(
        default=(),
        metadata=rules(
            "Which paths are relayed, the others answer 403: `deny /v1/audio/*`. The first match decides.",
            absent="all are relayed",
        ),
    )
    admin_key: Secret | None = field(
        default=None,
        metadata=rules(
            "Key for receipts and /debug from elsewhere than loopback. A flag shows in the process list.",
            absent="none",
        ),
    )
    admin_key_file: str | None = field(
        default=None, metadata=rules("File that holds adminKey.", absent="none")
    )
    endpoint_key: Secret | None = field(
        default=None,
        metadata=rules(
            "Key that endpoints get as a bearer token: with requests, instead of the client's, and with "
            "scrapes and probes.",
            absent="none",
        ),
    )
    endpoint_key_file: str | None = field(
        default=None, metadata=rules("File that holds endpointKey.", absent="none")
    )
    trusted_proxies: tuple[Network, ...] = field(
        default=(),
        metadata=rules(
            "A network, like 10.0.0.0/8, whose X-Forwarded-* headers are believed. Repeatable.",
            absent="none: such headers are replaced",
        ),
    )
    tls: TlsSettings = field(default_factory=TlsSettings)
    admin_tls: AdminTlsSettings = field(default_factory=AdminTlsSettings)
    api_keys: ApiKeySettings = field(default_factory=ApiKeySettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    log: LogSettings = field(default_factory=LogSettings)
    access_log: AccessLogSettings = field(default_factory=AccessLogSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    cors: CorsSettings = field(default_factory=CorsSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    health: HealthSettings = field(default_factory=HealthSettings)
    receipts: ReceiptSettings = field(default_factory=ReceiptSettings)
    stream: StreamSettings = field(default_factory=StreamSettings)
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    state: StateSettings = field(default_factory=StateSettings)


def sections() -> dict[str, type]:
    """Attribute → class of the branches of `Settings`, dotted where nested; outer ones come first."""
    found: dict[str, type] = {}
    waiting: list[tuple[str, type]] = [("", Settings)]
    for prefix, holder in waiting:
        inner = [
            (f"{prefix}{f.name}", f.type)
            for f in dataclasses.fields(holder)
            if isinstance(f.type, type) and not f.metadata
        ]
        found.update(inner)
        waiting += [(f"{branch}.", kind) for branch, kind in inner]
    return found


def leaves() -> list[Leaf]:
    """All settings, the top level first, in the order of their definition."""
    branches: dict[str, type] = {"": Settings, **sections()}
    return [
        leaf_of(branch, f)
        for branch, holder in branches.items()
        for f in dataclasses.fields(holder)
        if "rules" in f.metadata
    ]
