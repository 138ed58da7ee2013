"""The metrics page of vLLM 0.32: its names, labels, types and buckets.

Gauges and counters change when a step ends, as in vLLM. Times are real seconds, so that they agree with
what a client measures, whatever the time scale.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0, generate_latest

from epp.engine import Engine, EngineCounters, EngineGauges, StepOutput, Timeline
from epp.simserver.settings import SimSettings

__all__ = ["CONTENT_TYPE_PLAIN_1_0_0", "SimMetrics"]

FIRST_TOKEN_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
    160, 640, 2560,
)  # fmt: skip
TOKEN_BUCKETS = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
)
REQUEST_BUCKETS = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680
)  # fmt: skip
ITERATION_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SIZE_BUCKETS = (1e6, 5e6, 1e7, 2e7, 4e7, 6e7, 8e7, 1e8, 1.5e8, 2e8)
PREEMPTION_BUCKETS = (1, 2, 3, 4, 5, 10, 20)
CHOICE_BUCKETS = (1, 2, 5, 10, 20)

CACHE_CONFIG_LABELS = {
    "cache_dtype": "auto",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92",
    "kv_offloading_size": "None",
    "num_cpu_blocks": "None",
    "prefix_caching_hash_algo": "sha256",
    "sliding_window": "None",
}


class SimMetrics:
    """The page of one server."""

    def __init__(self, settings: SimSettings, engine: Engine, started_wall_s: float) -> None:
        self._settings = settings
        self._engine = engine
        self._registry = CollectorRegistry()
        self._labels = {"engine": "0", "model_name": settings.model}
        self._gauges = engine.gauges()
        self._counters = EngineCounters()
        self._published = EngineCounters()
        start = Gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            registry=self._registry,
        )
        start.set(started_wall_s)
        self._declare_gauges()
        self._declare_counters()
        self._declare_histograms()
        self._declare_info()

    # ---------------------------------------------------------------- what happens

    def on_step(self, outputs: Sequence[StepOutput], computed_tokens: int) -> None:
        """A step has ended: the engine's state becomes visible, the latencies of its outputs are counted."""
        self._gauges = self._engine.gauges()
        self._counters = replace(self._engine.counters)
        if computed_tokens:
            self._iteration_tokens.observe(computed_tokens)
        for output in outputs:
            first = output.timeline is not None and output.timeline.generated_tokens == 1
            histogram = self._first_token if first else self._inter_token
            histogram.observe(self._real_s(output.elapsed_s))
            if output.finish_reason is not None and output.timeline is not None:
                self._observe_end(output.timeline)

    def on_request(self, n: int, max_tokens: int) -> None:
        """A request was accepted."""
        self._params_n.observe(n)
        self._params_max_tokens.observe(max_tokens)

    def on_rejection(self) -> None:
        """A request was refused because of `--max-num-queued-reqs`."""
        self._rejections.labels(self._settings.model, "max_num_queued_reqs").inc()

    def set_sleep_level(self, level: int) -> None:
        """0 is awake, 1 weights offloaded, 2 everything discarded."""
        for position, state in enumerate(("awake", "weights_offloaded", "discard_all")):
            self._sleep_state.labels(*self._labels.values(), state).set(float(position == level))

    def set_adapters(self, running: Iterable[str], waiting: Iterable[str]) -> None:
        """Which adapters have requests, as comma-separated lists in labels; the value is the time."""
        labels = (str(len(self._settings.lora)), ",".join(waiting), ",".join(running))
        self._lora_info.labels(*labels).set_to_current_time()

    def page(self) -> bytes:
        """The page as it is served."""
        self._publish_gauges(self._gauges)
        self._publish_counters()
        return generate_latest(self._registry)

    # ---------------------------------------------------------------- declarations

    def _gauge(self, name: str, text: str, *extra: str) -> Gauge:
        return Gauge(name, text, [*self._labels, *extra], registry=self._registry)

    def _counter(self, name: str, text: str, *extra: str) -> Counter:
        return Counter(name, text, [*self._labels, *extra], registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        family = Histogram(name, text, list(self._labels), buckets=buckets, registry=self._registry)
        return family.labels(*self._labels.values())

    def _declare_gauges(self) -> None:
        own = self._labels.values()
        text = "Number of requests in model execution batches."
        self._running = self._gauge("vllm:num_requests_running", text).labels(*own)
        text = "Number of requests waiting to be processed."
        self._waiting = self._gauge("vllm:num_requests_waiting", text).labels(*own)
        text = "Number of waiting requests by reason."
        by_reason = self._gauge("vllm:num_requests_waiting_by_reason", text, "reason")
        self._waiting_capacity = by_reason.labels(*own, "capacity")
        self._waiting_deferred = by_reason.labels(*own, "deferred")
        text = "KV-cache usage. 1 means 100 percent usage."
        self._usage = self._gauge("vllm:kv_cache_usage_perc", text).labels(*own)
        text = "Engine sleep state."
        self._sleep_state = self._gauge("vllm:engine_sleep_state", text, "sleep_state")
        self.set_sleep_level(0)
        self._lora_info = Gauge(
            "vllm:lora_requests_info",
            "Running stats on lora requests.",
            ["max_lora", "waiting_lora_adapters", "running_lora_adapters"],
            registry=self._registry if self._settings.lora else None,
        )

    def _declare_counters(self) -> None:
        own = tuple(self._labels.values())
        self._bound: dict[str, list[Counter]] = {}
        tokens = "in terms of number of tokens."
        for field, name, text in (
            ("prefix_queries", "vllm:prefix_cache_queries", f"Prefix cache queries, {tokens}"),
            ("prefix_hits", "vllm:prefix_cache_hits", f"Prefix cache hits, {tokens}"),
            ("external_queries", "vllm:external_prefix_cache_queries", f"External queries, {tokens}"),
            ("external_hits", "vllm:external_prefix_cache_hits", f"External hits, {tokens}"),
            ("preemptions", "vllm:num_preemptions", "Cumulative number of preemption from the engine."),
            ("prompt", "vllm:prompt_tokens", "Number of prefill tokens processed."),
            ("prompt_cached", "vllm:prompt_tokens_cached", "Number of cached prompt tokens."),
            ("generation", "vllm:generation_tokens", "Number of generation tokens processed."),
        ):
            self._bound[field] = [self._counter(name, text).labels(*own)]
        by_source = self._counter(
            "vllm:prompt_tokens_by_source", "Number of prompt tokens by source.", "source"
        )
        for field, source in (
            ("prompt_computed", "local_compute"),
            ("prompt_gpu_hit", "local_cache_hit"),
            ("prompt_cpu_hit", "external_kv_transfer"),
        ):
            self._bound[field] = [by_source.labels(*own, source)]
        text = "Prefix-cache hit tokens by the cache tier that supplied them."
        tier = self._counter("vllm:prompt_tokens_cached_by_source", text, "source")
        self._bound["prefix_hits"].append(tier.labels(*own, "device"))
        self._bound["external_hits"].append(tier.labels(*own, "host"))
        for source in ("p2p", "disk", "external_unspecified"):
            tier.labels(*own, source)
        text = "Count of successfully processed requests."
        success = self._counter("vllm:request_success", text, "finished_reason")
        self._bound["finished_stop"] = [success.labels(*own, "stop")]
        self._bound["finished_length"] = [success.labels(*own, "length")]
        for reason in ("abort", "error", "repetition"):
            success.labels(*own, reason)
        self._rejections = Counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            ["model_name", "reason"],
            registry=self._registry,
        )
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            self._rejections.labels(self._settings.model, reason)
        if self._settings.cpu_blocks:
            self._declare_offload_counters()

    def _declare_offload_counters(self) -> None:
        own = self._labels.values()
        text = "Number of bytes offloaded by KV connector"
        total = self._counter("vllm:kv_offload_total_bytes", text, "transfer_type")
        load = self._counter("vllm:kv_offload_load_bytes", "Total bytes loaded from offload storage to GPU.")
        store = self._counter(
            "vllm:kv_offload_store_bytes", "Total bytes stored from GPU to offload storage."
        )
        load_time = self._counter("vllm:kv_offload_load_time", "Total load time from offload storage to GPU.")
        text = "Number of KV offload store allocation attempts that failed."
        failures = self._counter("vllm:kv_offload_allocation_failure", text)
        self._bound["load_bytes"] = [load.labels(*own), total.labels(*own, "CPU_to_GPU")]
        self._bound["store_bytes"] = [store.labels(*own), total.labels(*own, "GPU_to_CPU")]
        self._bound["load_s"] = [load_time.labels(*own)]
        self._bound["stores_skipped"] = [failures.labels(*own)]

    def _declare_histograms(self) -> None:
        length = _one_two_five(self._settings.context_tokens)
        make = self._histogram
        text = "Histogram of time to first token in seconds."
        self._first_token = make("vllm:time_to_first_token_seconds", text, FIRST_TOKEN_BUCKETS)
        text = "Histogram of inter-token latency in seconds."
        self._inter_token = make("vllm:inter_token_latency_seconds", text, TOKEN_BUCKETS)
        text = "Histogram of time_per_output_token_seconds per request."
        self._per_token = make("vllm:request_time_per_output_token_seconds", text, TOKEN_BUCKETS)
        text = "Histogram of e2e request latency in seconds."
        self._e2e = make("vllm:e2e_request_latency_seconds", text, REQUEST_BUCKETS)
        text = "Histogram of time spent in {} phase for request."
        name = "vllm:request_{}_time_seconds"
        self._queue_time = make(name.format("queue"), text.format("WAITING"), REQUEST_BUCKETS)
        self._inference_time = make(name.format("inference"), text.format("RUNNING"), REQUEST_BUCKETS)
        self._prefill_time = make(name.format("prefill"), text.format("PREFILL"), REQUEST_BUCKETS)
        self._decode_time = make(name.format("decode"), text.format("DECODE"), REQUEST_BUCKETS)
        text = "Histogram of the number of times a request was preempted."
        self._preemption_count = make("vllm:request_num_preemptions", text, PREEMPTION_BUCKETS)
        text = "Number of prefill tokens processed."
        self._prompt_tokens = make("vllm:request_prompt_tokens", text, length)
        text = "Number of generation tokens processed."
        self._generation_tokens = make("vllm:request_generation_tokens", text, length)
        text = "Histogram of maximum number of requested generation tokens."
        self._max_generation_tokens = make("vllm:request_max_num_generation_tokens", text, length)
        text = "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
        self._kv_computed_tokens = make("vllm:request_prefill_kv_computed_tokens", text, length)
        text = "Histogram of the n request parameter."
        self._params_n = make("vllm:request_params_n", text, CHOICE_BUCKETS)
        text = "Histogram of the max_tokens request parameter."
        self._params_max_tokens = make("vllm:request_params_max_tokens", text, length)
        text = "Histogram of number of tokens per engine_step."
        self._iteration_tokens = make("vllm:iteration_tokens_total", text, ITERATION_BUCKETS)

    def _declare_info(self) -> None:
        settings = self._settings
        config = settings.engine_config()
        size_tokens = settings.gpu_blocks * settings.block_size
        labels = CACHE_CONFIG_LABELS | {
            "block_size": str(settings.block_size),
            "effective_attention_block_size": str(settings.block_size),
            "engine": "0",
            "kv_cache_max_concurrency": str(size_tokens / settings.context_tokens),
            "kv_cache_size_tokens": str(size_tokens),
            "kv_offloading_backend": "native",
            "num_gpu_blocks": str(settings.gpu_blocks),
            "num_gpu_blocks_override": str(settings.gpu_blocks),
            "user_specified_block_size": "True",
        }
        text = "Information of the LLMEngine CacheConfig"
        info = Gauge("vllm:cache_config_info", text, list(labels), registry=self._registry)
        info.labels(**labels).set(1)
        if settings.report_cpu_tier and settings.cpu_blocks:
            tokens = settings.cpu_blocks * settings.block_size
            offload = self._labels | {
                "cpu_num_chunks": str(settings.cpu_blocks),
                "cpu_blocks_per_chunk": "1",
                "cpu_kv_cache_size_bytes": str(tokens * config.kv_bytes_per_token),
                "cpu_kv_cache_size_tokens": str(tokens),
            }
            text = "Information of the KV offload configuration."
            family = Gauge("vllm:kv_offload_config_info", text, list(offload), registry=self._registry)
            family.labels(**offload).set(1)

    # ---------------------------------------------------------------- publication

    def _publish_gauges(self, gauges: EngineGauges) -> None:
        self._running.set(gauges.running)
        self._waiting.set(gauges.waiting + gauges.loading)
        self._waiting_capacity.set(gauges.waiting)
        self._waiting_deferred.set(gauges.loading)
        self._usage.set(gauges.kv_usage)

    def _publish_counters(self) -> None:
        for field, counters in self._bound.items():
            growth = getattr(self._counters, field) - getattr(self._published, field)
            if field == "load_s":
                growth = self._real_s(growth)
            for counter in counters:
                counter.inc(growth)
        self._published = self._counters

    def _observe_end(self, timeline: Timeline) -> None:
        decode_s = self._real_s(timeline.last_token_s - timeline.first_token_s)
        self._e2e.observe(self._real_s(timeline.last_token_s - timeline.arrival_s))
        self._queue_time.observe(self._real_s(timeline.scheduled_s - timeline.arrival_s))
        self._prefill_time.observe(self._real_s(timeline.first_token_s - timeline.scheduled_s))
        self._decode_time.observe(decode_s)
        self._inference_time.observe(self._real_s(timeline.last_token_s - timeline.scheduled_s))
        self._preemption_count.observe(timeline.preemptions)
        self._prompt_tokens.observe(timeline.prompt_tokens)
        self._generation_tokens.observe(timeline.generated_tokens)
        self._max_generation_tokens.observe(timeline.generated_tokens)
        cached_tokens = timeline.gpu_hit_tokens + timeline.cpu_hit_tokens
        self._kv_computed_tokens.observe(timeline.prompt_tokens - cached_tokens)
        if timeline.generated_tokens > 1:
            self._per_token.observe(decode_s / (timeline.generated_tokens - 1))

    def _real_s(self, model_s: float) -> float:
        return model_s / self._settings.time_scale


def _one_two_five(limit: int) -> list[int]:
    """1, 2, 5, 10, … up to `limit`, vLLM's buckets for lengths."""
    buckets: list[int] = []
    scale = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * scale > limit:
                return buckets
            buckets.append(mantissa * scale)
        scale *= 10
