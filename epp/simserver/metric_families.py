"""The families on vLLM 0.32's metrics page that a router may read: names, labels, help, buckets.

Sources of values are fields of `EngineCounters` for counters, and keys used by `SimMetrics` for histograms.
"""

from dataclasses import dataclass

__all__ = [
    "CACHE_CONFIG_LABELS",
    "COUNTERS",
    "HISTOGRAMS",
    "OFFLOAD_COUNTERS",
    "CounterFamily",
    "HistogramFamily",
    "length_buckets",
]

FIRST_TOKEN_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
    160, 640, 2560,
)  # fmt: skip
TOKEN_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80
)  # fmt: skip
PHASE_BUCKETS = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680
)  # fmt: skip
ITERATION_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True, slots=True)
class CounterFamily:
    """A counter. `values` maps a value of `label` to a field of the engine's counters, None for what stays 0.

    Without a label there is one entry, under "".
    """

    name: str
    help: str
    values: dict[str, str | None]
    label: str = ""


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram; `buckets` is None for lengths in tokens, whose buckets depend on the context."""

    key: str
    name: str
    help: str
    buckets: tuple[float, ...] | None


COUNTERS = (
    CounterFamily(
        "vllm:prefix_cache_queries",
        "Prefix cache queries, in terms of number of queried tokens.",
        {"": "prefix_queries"},
    ),
    CounterFamily(
        "vllm:prefix_cache_hits",
        "Prefix cache hits, in terms of number of cached tokens.",
        {"": "prefix_hits"},
    ),
    CounterFamily(
        "vllm:external_prefix_cache_queries",
        "Queries to the KV connector, in terms of number of queried tokens.",
        {"": "external_queries"},
    ),
    CounterFamily(
        "vllm:external_prefix_cache_hits",
        "Hits through the KV connector, in terms of number of cached tokens.",
        {"": "external_hits"},
    ),
    CounterFamily(
        "vllm:num_preemptions",
        "Cumulative number of preemption from the engine.",
        {"": "preemptions"},
    ),
    CounterFamily("vllm:prompt_tokens", "Number of prefill tokens processed.", {"": "prompt"}),
    CounterFamily(
        "vllm:prompt_tokens_by_source",
        "Number of prompt tokens by source.",
        {
            "local_compute": "prompt_computed",
            "local_cache_hit": "prompt_gpu_hit",
            "external_kv_transfer": "prompt_cpu_hit",
        },
        label="source",
    ),
    CounterFamily(
        "vllm:prompt_tokens_cached",
        "Number of cached prompt tokens (local + external).",
        {"": "prompt_cached"},
    ),
    CounterFamily(
        "vllm:prompt_tokens_cached_by_source",
        "Prefix-cache hit tokens by the cache tier that supplied them, counted at admission.",
        {
            "device": "prefix_hits",
            "host": "external_hits",
            "p2p": None,
            "disk": None,
            "external_unspecified": None,
        },
        label="source",
    ),
    CounterFamily(
        "vllm:generation_tokens",
        "Number of generation tokens processed.",
        {"": "generation"},
    ),
    CounterFamily(
        "vllm:request_success",
        "Count of successfully processed requests.",
        {
            "stop": "finished_stop",
            "length": "finished_length",
            "abort": None,
            "error": None,
            "repetition": None,
        },
        label="finished_reason",
    ),
)

OFFLOAD_COUNTERS = (
    CounterFamily(
        "vllm:kv_offload_total_bytes",
        "Number of bytes offloaded by KV connector",
        {"CPU_to_GPU": "load_bytes", "GPU_to_CPU": "store_bytes"},
        label="transfer_type",
    ),
    CounterFamily(
        "vllm:kv_offload_load_bytes",
        "Total bytes loaded from offload storage to GPU.",
        {"": "load_bytes"},
    ),
    CounterFamily(
        "vllm:kv_offload_load_time",
        "Total load time from offload storage to GPU, in seconds.",
        {"": "load_s"},
    ),
    CounterFamily(
        "vllm:kv_offload_store_bytes",
        "Total bytes stored from GPU to offload storage.",
        {"": "store_bytes"},
    ),
    CounterFamily(
        "vllm:kv_offload_allocation_failure",
        "Number of KV offload store allocation attempts that failed.",
        {"": "stores_skipped"},
    ),
)

HISTOGRAMS = (
    HistogramFamily(
        "first_token",
        "vllm:time_to_first_token_seconds",
        "Histogram of time to first token in seconds.",
        FIRST_TOKEN_BUCKETS,
    ),
    HistogramFamily(
        "inter_token",
        "vllm:inter_token_latency_seconds",
        "Histogram of inter-token latency in seconds.",
        TOKEN_BUCKETS,
    ),
    HistogramFamily(
        "per_token",
        "vllm:request_time_per_output_token_seconds",
        "Histogram of time_per_output_token_seconds per request.",
        TOKEN_BUCKETS,
    ),
    HistogramFamily(
        "end_to_end",
        "vllm:e2e_request_latency_seconds",
        "Histogram of e2e request latency in seconds.",
        PHASE_BUCKETS,
    ),
    HistogramFamily(
        "queue",
        "vllm:request_queue_time_seconds",
        "Histogram of time spent in WAITING phase for request.",
        PHASE_BUCKETS,
    ),
    HistogramFamily(
        "inference",
        "vllm:request_inference_time_seconds",
        "Histogram of time spent in RUNNING phase for request.",
        PHASE_BUCKETS,
    ),
    HistogramFamily(
        "prefill",
        "vllm:request_prefill_time_seconds",
        "Histogram of time spent in PREFILL phase for request.",
        PHASE_BUCKETS,
    ),
    HistogramFamily(
        "decode",
        "vllm:request_decode_time_seconds",
        "Histogram of time spent in DECODE phase for request.",
        PHASE_BUCKETS,
    ),
    HistogramFamily(
        "preemptions",
        "vllm:request_num_preemptions",
        "Histogram of the number of times a request was preempted.",
        (1, 2, 3, 4, 5, 10, 20),
    ),
    HistogramFamily(
        "prompt_tokens", "vllm:request_prompt_tokens", "Number of prefill tokens processed.", None
    ),
    HistogramFamily(
        "generation_tokens", "vllm:request_generation_tokens", "Number of generation tokens processed.", None
    ),
    HistogramFamily(
        "max_generation_tokens",
        "vllm:request_max_num_generation_tokens",
        "Histogram of maximum number of requested generation tokens.",
        None,
    ),
    HistogramFamily(
        "computed_tokens",
        "vllm:request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        None,
    ),
    HistogramFamily("n", "vllm:request_params_n", "Histogram of the n request parameter.", (1, 2, 5, 10, 20)),
    HistogramFamily(
        "max_tokens",
        "vllm:request_params_max_tokens",
        "Histogram of the max_tokens request parameter.",
        None,
    ),
    HistogramFamily(
        "iteration_tokens",
        "vllm:iteration_tokens_total",
        "Histogram of number of tokens per engine_step.",
        ITERATION_BUCKETS,
    ),
)

CACHE_CONFIG_LABELS = {
    "cache_dtype": "auto",
    "enable_prefix_caching": "True",
    "engine": "0",
    "gpu_memory_utilization": "0.92",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "num_cpu_blocks": "None",
    "prefix_caching_hash_algo": "sha256",
    "sliding_window": "None",
    "user_specified_block_size": "True",
}
"""Labels of `vllm:cache_config_info` that do not depend on the settings."""


def length_buckets(limit: int) -> list[float]:
    """1, 2, 5, 10, … up to `limit`: vLLM's buckets for lengths."""
    buckets: list[float] = []
    scale = 1
    while scale <= limit:
        buckets += [float(mantissa * scale) for mantissa in (1, 2, 5) if mantissa * scale <= limit]
        scale *= 10
    return buckets
