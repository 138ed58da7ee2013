"""What each engine calls the few things that routing reads.

Alternatives stand in order of precedence: the first that a page has counts. Sources: vLLM 0.8.5 to 0.33,
SGLang 0.4 to 0.5, TensorRT-LLM's own server, and Triton with its TensorRT-LLM backend.
"""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["ENGINES", "Engine", "Selector", "SourceNames"]

_SPEC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^{}]*)\})?")


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric by name and by the labels it must have."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """Read `name` or `name{label=value,…}`, the way the Go picker's flags write it; quotes are optional.

        Raises:
            ValueError: it is neither.
        """
        match = _SPEC.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"not a metric: {text!r}, write name or name{{label=value}}")
        labels: list[tuple[str, str]] = []
        for part in filter(None, (part.strip() for part in (match[2] or "").split(","))):
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                raise ValueError(f"not a label: {part!r} in {text!r}, write label=value")
            labels.append((key.strip(), value.strip().strip('"')))
        return cls(match[1], tuple(labels))


@dataclass(frozen=True, slots=True)
class SourceNames:
    """Counters of cached prompt tokens: each value of `label`, or each whole counter, is one source.

    `renamed` maps a value to the name of vLLM 0.32's tiers (device, host, disk, p2p, external_unspecified);
    None leaves it out. Values that it does not hold keep their name.
    """

    name: str
    label: str
    renamed: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """The names of one engine.

    `sources` are alternatives; the counters inside one alternative are taken together. `blocks` and the
    capacities are those of one engine. `info` are metrics that say something by their labels.
    """

    name: str
    waiting: tuple[Selector, ...]
    running: tuple[Selector, ...]
    kv_usage: tuple[Selector, ...]
    prompt_tokens: tuple[Selector, ...] = ()
    generation_tokens: tuple[Selector, ...] = ()
    sources: tuple[tuple[SourceNames, ...], ...] = ()
    block_tokens: tuple[Selector, ...] = ()
    blocks: tuple[Selector, ...] = ()
    capacity_tokens: tuple[Selector, ...] = ()
    cpu_capacity_tokens: tuple[Selector, ...] = ()
    info: tuple[str, ...] = ()

    def names(self) -> frozenset[str]:
        """Every metric name that is read for this engine."""
        selectors = (
            *self.waiting, *self.running, *self.kv_usage, *self.prompt_tokens, *self.generation_tokens,
            *self.block_tokens, *self.blocks, *self.capacity_tokens, *self.cpu_capacity_tokens,
        )  # fmt: skip
        sources = {source.name for alternative in self.sources for source in alternative}
        return frozenset({selector.name for selector in selectors} | sources | set(self.info))


def _plain(*names: str) -> tuple[Selector, ...]:
    return tuple(Selector(name) for name in names)


_VLLM: Final = Engine(
    name="vllm",
    waiting=_plain("vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"),
    running=_plain("vllm:num_requests_running"),
    kv_usage=_plain("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    prompt_tokens=_plain("vllm:prompt_tokens_total"),
    generation_tokens=_plain("vllm:generation_tokens_total"),
    sources=(
        (SourceNames("vllm:prompt_tokens_cached_by_source_total", "source"),),
        (
            SourceNames(
                "vllm:prompt_tokens_by_source_total",
                "source",
                (
                    ("local_compute", None),
                    ("local_cache_hit", "device"),
                    ("external_kv_transfer", "external_unspecified"),
                ),
            ),
        ),
        (
            SourceNames("vllm:prefix_cache_hits_total", "", (("", "device"),)),
            SourceNames("vllm:external_prefix_cache_hits_total", "", (("", "external_unspecified"),)),
        ),
        (SourceNames("vllm:gpu_prefix_cache_hits_total", "", (("", "device"),)),),
    ),
    info=(
        "vllm:cache_config_info",
        "vllm:kv_offload_config_info",
        "vllm:simple_kv_offload_info",
        "vllm:lora_requests_info",
        "vllm:engine_sleep_state",
    ),
)

_SGLANG: Final = Engine(
    name="sglang",
    waiting=_plain("sglang:num_queue_reqs"),
    running=_plain("sglang:num_running_reqs"),
    kv_usage=_plain("sglang:token_usage"),
    prompt_tokens=_plain("sglang:prompt_tokens_total"),
    generation_tokens=_plain("sglang:generation_tokens_total"),
    sources=((SourceNames("sglang:cached_tokens_total", "cache_source", (("", "device"),)),),),
    block_tokens=_plain("sglang:page_size"),
    blocks=_plain("sglang:num_pages"),
    capacity_tokens=_plain("sglang:max_total_num_tokens"),
    cpu_capacity_tokens=_plain("sglang:hicache_host_total_tokens"),
    info=("sglang:cache_config_info",),
)

_TRTLLM_SERVE: Final = Engine(
    name="trtllm-serve",
    waiting=_plain("trtllm_num_requests_waiting"),
    running=_plain("trtllm_num_requests_running"),
    kv_usage=_plain("trtllm_kv_cache_utilization"),
    block_tokens=_plain("trtllm_kv_cache_tokens_per_block"),
    blocks=_plain("trtllm_kv_cache_max_blocks"),
)


def _triton(name: str, label: str, value: str) -> tuple[Selector, ...]:
    return (Selector(name, ((label, value),)),)


_TRITON_REQUESTS: Final = "nv_trt_llm_request_metrics"
_TRITON_BLOCKS: Final = "nv_trt_llm_kv_cache_block_metrics"

_TRITON_TRTLLM: Final = Engine(
    name="triton-tensorrt-llm",
    waiting=_triton(_TRITON_REQUESTS, "request_type", "waiting"),
    running=_triton(_TRITON_REQUESTS, "request_type", "scheduled"),
    kv_usage=_triton(_TRITON_BLOCKS, "kv_cache_block_type", "fraction"),
    block_tokens=_triton(_TRITON_BLOCKS, "kv_cache_block_type", "tokens_per"),
    blocks=_triton(_TRITON_BLOCKS, "kv_cache_block_type", "max"),
)

ENGINES: Final = (_VLLM, _SGLANG, _TRTLLM_SERVE, _TRITON_TRTLLM)
