"""The metrics page of one simulated server.

Gauges and counters change when a step ends, as in vLLM. Times are real seconds, so that they agree with
what a client measures, whatever the time scale.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0, generate_latest

from epp.engine import Engine, EngineCounters, EngineGauges, StepOutput, Timeline
from epp.simserver.metric_families import (
    CACHE_CONFIG_LABELS,
    COUNTERS,
    HISTOGRAMS,
    OFFLOAD_COUNTERS,
    CounterFamily,
    HistogramFamily,
    length_buckets,
)
from epp.simserver.settings import SimSettings

__all__ = ["CONTENT_TYPE_PLAIN_1_0_0", "SimMetrics"]

SLEEP_STATES = ("awake", "weights_offloaded", "discard_all")


class SimMetrics:
    """Takes what happens to the engine and to requests, and renders the page."""

    def __init__(self, settings: SimSettings, engine: Engine, started_wall_s: float) -> None:
        self._settings = settings
        self._engine = engine
        self._registry = CollectorRegistry()
        self._labels = {"engine": "0", "model_name": settings.model}
        self._gauges = engine.gauges()
        self._counters = EngineCounters()
        self._published = EngineCounters()
        self._declare_process(started_wall_s)
        self._declare_gauges()
        families = COUNTERS + (OFFLOAD_COUNTERS if settings.cpu_blocks else ())
        self._bound = [bound for family in families for bound in self._bind_counter(family)]
        self._histograms = {family.key: self._bind_histogram(family) for family in HISTOGRAMS}
        self._rejected = self._declare_rejections()
        self._adapters = self._declare_adapters()
        self._declare_cache_config()

    # ---------------------------------------------------------------- what happens

    def on_step(self, outputs: Sequence[StepOutput], computed_tokens: int, gauges: EngineGauges) -> None:
        """A step has ended: the state it left becomes visible, the latencies of its outputs are counted."""
        self._gauges = gauges
        self._counters = replace(self._engine.counters)
        if computed_tokens:
            self._histograms["iteration_tokens"].observe(computed_tokens)
        for output in outputs:
            first = output.timeline is not None and output.timeline.generated_tokens == 1
            self._observe_s("first_token" if first else "inter_token", output.elapsed_s)
            if output.finish_reason is not None and output.timeline is not None:
                self._observe_end(output.timeline)

    def on_request(self, n: int, max_tokens: int) -> None:
        """A request was accepted."""
        self._histograms["n"].observe(n)
        self._histograms["max_tokens"].observe(max_tokens)

    def on_rejection(self) -> None:
        """A request was refused because of `--max-num-queued-reqs`."""
        self._rejected.inc()

    def set_sleep_level(self, level: int) -> None:
        """0 is awake, 1 weights offloaded, 2 everything discarded."""
        for position, state in enumerate(SLEEP_STATES):
            self._sleep_state.labels(*self._labels.values(), state).set(float(position == level))

    def set_adapters(self, active: Iterable[str]) -> None:
        """Which adapters have requests; the series of the latest set carries the latest time."""
        labels = (str(max(1, len(self._settings.lora))), "", ",".join(sorted(active)))
        self._adapters.labels(*labels).set_to_current_time()

    def page(self) -> bytes:
        """The page as it is served."""
        self._publish_gauges(self._gauges)
        self._publish_counters()
        return generate_latest(self._registry)

    # ---------------------------------------------------------------- declarations

    def _declare_process(self, started_wall_s: float) -> None:
        text = "Start time of the process since unix epoch in seconds."
        Gauge("process_start_time_seconds", text, registry=self._registry).set(started_wall_s)

    def _gauge(self, name: str, text: str, *extra: str) -> Gauge:
        return Gauge(name, text, [*self._labels, *extra], registry=self._registry)

    def _declare_gauges(self) -> None:
        own = self._labels.values()
        text = "Number of requests in model execution batches."
        self._running = self._gauge("vllm:num_requests_running", text).labels(*own)
        text = "Number of requests waiting to be processed."
        self._waiting = self._gauge("vllm:num_requests_waiting", text).labels(*own)
        text = "Number of waiting requests by reason: for scheduling capacity, or deferred by a KV transfer."
        by_reason = self._gauge("vllm:num_requests_waiting_by_reason", text, "reason")
        self._waiting_capacity = by_reason.labels(*own, "capacity")
        self._waiting_deferred = by_reason.labels(*own, "deferred")
        text = "KV-cache usage. 1 means 100 percent usage."
        self._usage = self._gauge("vllm:kv_cache_usage_perc", text).labels(*own)
        text = "Engine sleep state; awake = 0 means engine is sleeping."
        self._sleep_state = self._gauge("vllm:engine_sleep_state", text, "sleep_state")
        self.set_sleep_level(0)

    def _bind_counter(self, family: CounterFamily) -> list[tuple[str, Counter]]:
        """Series of a family with the engine's counter that each follows."""
        extra = [family.label] if family.label else []
        counter = Counter(family.name, family.help, [*self._labels, *extra], registry=self._registry)
        own = tuple(self._labels.values())
        series = {value: counter.labels(*own, *([value] if extra else [])) for value in family.values}
        return [(field, series[value]) for value, field in family.values.items() if field is not None]

    def _bind_histogram(self, family: HistogramFamily) -> Histogram:
        buckets = family.buckets or length_buckets(self._settings.context_tokens)
        histogram = Histogram(
            family.name, family.help, list(self._labels), buckets=buckets, registry=self._registry
        )
        return histogram.labels(*self._labels.values())

    def _declare_rejections(self) -> Counter:
        text = "Number of admission attempts rejected by a queue limit, by reason."
        labels = ["model_name", "reason"]
        family = Counter("vllm:admission_rejections", text, labels, registry=self._registry)
        family.labels(self._settings.model, "max_num_queued_tokens")
        return family.labels(self._settings.model, "max_num_queued_reqs")

    def _declare_adapters(self) -> Gauge:
        labels = ["max_lora", "waiting_lora_adapters", "running_lora_adapters"]
        text = "Running stats on lora requests."
        registry = self._registry if self._settings.lora or self._settings.runtime_lora else None
        return Gauge("vllm:lora_requests_info", text, labels, registry=registry)

    def _declare_cache_config(self) -> None:
        settings = self._settings
        size_tokens = settings.gpu_blocks * settings.block_size
        self._declare_info(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            CACHE_CONFIG_LABELS
            | {
                "block_size": str(settings.block_size),
                "effective_attention_block_size": str(settings.block_size),
                "kv_cache_max_concurrency": str(size_tokens / settings.context_tokens),
                "kv_cache_size_tokens": str(size_tokens),
                "num_gpu_blocks": str(settings.gpu_blocks),
                "num_gpu_blocks_override": str(settings.gpu_blocks),
            },
        )
        if settings.report_cpu_tier and settings.cpu_blocks:
            cpu_tokens = settings.cpu_blocks * settings.block_size
            self._declare_info(
                "vllm:kv_offload_config_info",
                "Information of the KV offload configuration.",
                self._labels
                | {
                    "cpu_num_chunks": str(settings.cpu_blocks),
                    "cpu_blocks_per_chunk": "1",
                    "cpu_kv_cache_size_bytes": str(cpu_tokens * self._engine.config.kv_bytes_per_token),
                    "cpu_kv_cache_size_tokens": str(cpu_tokens),
                },
            )

    def _declare_info(self, name: str, text: str, labels: dict[str, str]) -> None:
        Gauge(name, text, list(labels), registry=self._registry).labels(**labels).set(1)

    # ---------------------------------------------------------------- values

    def _publish_gauges(self, gauges: EngineGauges) -> None:
        self._running.set(gauges.running)
        self._waiting.set(gauges.waiting + gauges.loading)
        self._waiting_capacity.set(gauges.waiting)
        self._waiting_deferred.set(gauges.loading)
        self._usage.set(gauges.kv_usage)

    def _publish_counters(self) -> None:
        for field, counter in self._bound:
            growth = getattr(self._counters, field) - getattr(self._published, field)
            counter.inc(growth / self._settings.time_scale if field == "load_s" else growth)
        self._published = self._counters

    def _observe_s(self, key: str, model_s: float) -> None:
        self._histograms[key].observe(model_s / self._settings.time_scale)

    def _observe_end(self, timeline: Timeline) -> None:
        decode_s = timeline.last_token_s - timeline.first_token_s
        self._observe_s("end_to_end", timeline.last_token_s - timeline.arrival_s)
        self._observe_s("queue", timeline.scheduled_s - timeline.arrival_s)
        self._observe_s("inference", timeline.last_token_s - timeline.scheduled_s)
        self._observe_s("prefill", timeline.first_token_s - timeline.scheduled_s)
        self._observe_s("decode", decode_s)
        if timeline.generated_tokens > 1:
            self._observe_s("per_token", decode_s / (timeline.generated_tokens - 1))
        cached_tokens = timeline.gpu_hit_tokens + timeline.cpu_hit_tokens
        for key, value in (
            ("preemptions", timeline.preemptions),
            ("prompt_tokens", timeline.prompt_tokens),
            ("generation_tokens", timeline.generated_tokens),
            ("max_generation_tokens", timeline.generated_tokens),
            ("computed_tokens", timeline.prompt_tokens - cached_tokens),
        ):
            self._histograms[key].observe(value)
