"""Endpoints as readers see them: immutable, with missing data as None."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

__all__ = ["Endpoint", "EndpointMetrics", "EndpointSpec", "ModelInfo", "ModelLoad", "Pool"]

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """What a discovery source says of an endpoint. Identity is the address plus `uid` (an incarnation)."""

    scheme: str  # "http" or "https"
    host: str  # without brackets, also for IPv6
    port: int
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    uid: str = ""  # pod uid where there is one
    name: str = ""
    namespace: str = ""
    address: str = field(init=False, repr=False, compare=False)
    """`host:port`, IPv6 in brackets: the name used in headers, labels and logs."""

    def __post_init__(self) -> None:
        """Put the address together once: it is asked for several times a request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        object.__setattr__(self, "address", f"{host}:{self.port}")

    @property
    def url(self) -> str:
        """`scheme://host:port` without a trailing slash."""
        return f"{self.scheme}://{self.address}"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One entry of an endpoint's `/v1/models`. `raw` is the entry as JSON, handed on unchanged."""

    id: str
    parent: str | None = None  # set for an adapter: the base model's id
    root: str | None = None
    raw: bytes = b"{}"


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """The load of one of several models behind one address."""

    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None


class EndpointMetrics(msgspec.Struct, frozen=True):
    """One scrape. None: the page does not say (never 0). Data-parallel engines are summed or divided.

    Attributes:
        waiting: requests waiting, all engines.
        running: requests running, all engines.
        kv_usage: share of KV blocks in use by live requests, 0..1, mean of the engines.
        block_tokens: engine block size in tokens.
        hit_unit_tokens: finest token boundary a GPU hit lands on, where told.
        cpu_hit_unit_tokens: the same for the offload tier (its chunk).
        gpu_capacity_tokens: KV capacity of one engine, in tokens.
        cpu_capacity_tokens: capacity of the offload tier of one engine, in tokens.
        prefix_caching: False when the engine says it is off.
        running_adapters, waiting_adapters, max_adapters: LoRA state.
        prompt_tokens_total, generation_tokens_total: counters.
        cached_tokens_by_source: `vllm:prompt_tokens_cached_by_source_total`, by source; of older versions the
            nearest they have.
        process_start: `process_start_time_seconds`; another value is another incarnation.
        engine: "vllm", "sglang", … as guessed from the names on the page.
        awake: False while the engine sleeps; what it held is gone then.
        engines: data-parallel engines behind this address.
        waiting_for_capacity: the part of `waiting` that no load of offloaded blocks or adapters explains.
        by_model: load of each model, only when the page tells of more than one.
    """

    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    block_tokens: int | None = None
    hit_unit_tokens: int | None = None
    cpu_hit_unit_tokens: int | None = None
    gpu_capacity_tokens: int | None = None
    cpu_capacity_tokens: int | None = None
    prefix_caching: bool | None = None
    running_adapters: tuple[str, ...] = ()
    waiting_adapters: tuple[str, ...] = ()
    max_adapters: int | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    cached_tokens_by_source: Mapping[str, float] = msgspec.field(default_factory=dict)
    process_start: float | None = None
    engine: str | None = None
    awake: bool | None = None
    engines: int | None = None
    waiting_for_capacity: float | None = None
    by_model: Mapping[str, ModelLoad] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """One endpoint at one moment.

    Attributes:
        slot: small integer, the endpoint's bit in index masks and its place in the ledger; reused only after
            the endpoint is gone and its index entries are dropped.
        incarnation: grows whenever what the endpoint held is lost (restart, new pod, cache reset).
        spec: where it is.
        metrics: the last good scrape, None before the first.
        fresh: `metrics` is there and young enough; scorers must not read it where this is False.
        models: None while unknown.
        draining: takes no new request, finishes those it has.
        added_at: monotonic seconds since when this process of the endpoint is known; a restart sets it anew.
    """

    slot: int
    incarnation: int
    spec: EndpointSpec
    metrics: EndpointMetrics | None = None
    fresh: bool = False
    models: tuple[ModelInfo, ...] | None = None
    draining: bool = False
    added_at: float = 0.0

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.spec.address


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """All endpoints at one moment, ordered by slot.

    `version` changes whenever anything here does, `topology` only when membership, incarnations or models
    do; None says nothing, and every pool then counts as another topology.
    """

    version: int
    endpoints: tuple[Endpoint, ...]
    by_address: Mapping[str, Endpoint]
    topology: int | None = None

    def at_slot(self, slot: int) -> Endpoint | None:
        """The endpoint in `slot`, None when it is free."""
        return next((e for e in self.endpoints if e.slot == slot), None)
