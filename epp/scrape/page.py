"""One metrics page of an endpoint: what routing learns from it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from epp.endpoints.types import EndpointMetrics, ModelLoad
from epp.scrape.capacity import CapacityReader
from epp.scrape.engines import ENGINES, Engine, Selector
from epp.scrape.exposition import PageError, SampleFinder
from epp.scrape.samples import EngineKey, Samples

__all__ = ["CoreNames", "Page", "PageError", "PageReader"]

_PROCESS_START: Final = Selector("process_start_time_seconds")
_FOR_CAPACITY: Final = Selector("vllm:num_requests_waiting_by_reason", (("reason", "capacity"),))
_AWAKE: Final = Selector("vllm:engine_sleep_state", (("sleep_state", "awake"),))
_LORA: Final = Selector("vllm:lora_requests_info")


@dataclass(frozen=True, slots=True)
class CoreNames:
    """Names that an operator gives for the load metrics; they go before those of every engine."""

    waiting: Selector | None = None
    running: Selector | None = None
    kv_usage: Selector | None = None

    def before(self, engine: Engine) -> Engine:
        """`engine`, asked for these names first."""
        return dataclasses.replace(
            engine,
            waiting=(self.waiting, *engine.waiting) if self.waiting else engine.waiting,
            running=(self.running, *engine.running) if self.running else engine.running,
            kv_usage=(self.kv_usage, *engine.kv_usage) if self.kv_usage else engine.kv_usage,
        )


_NO_NAMES: Final = CoreNames()


class Page(msgspec.Struct, frozen=True):
    """What a page says. `rejected`: fields of `metrics` that are None because a sample cannot be true."""

    metrics: EndpointMetrics
    rejected: frozenset[str] = frozenset()


class PageReader:
    """Reads pages; one serves all endpoints."""

    __slots__ = ("_capacities", "_engines", "_finder", "_unknown")

    def __init__(self, names: CoreNames = _NO_NAMES) -> None:
        self._engines = tuple((engine.names(), names.before(engine)) for engine in ENGINES)
        self._unknown = names.before(Engine("", (), (), ()))
        wanted = {_PROCESS_START.name, *self._unknown.names()}
        self._capacities = CapacityReader()
        self._finder = SampleFinder(sorted(wanted.union(*(names for names, _ in self._engines))))

    def read(self, page: bytes) -> Page:
        """What `page` says; a page without any known name says nothing, and that is no error.

        Raises:
            PageError: it is not a whole page of metrics.
        """
        found = self._finder.find(page)
        engine = next((e for names, e in self._engines if not names.isdisjoint(found)), self._unknown)
        samples = Samples(found)
        metrics = _read(samples, engine, self._capacities)
        return Page(metrics, frozenset(samples.rejected))


def _read(samples: Samples, engine: Engine, capacities: CapacityReader) -> EndpointMetrics:
    waiting = samples.by_engine("waiting", engine.waiting)
    running = samples.by_engine("running", engine.running)
    kv_usage = samples.by_engine("kv_usage", engine.kv_usage, most=1.0)
    keys = {*waiting, *running, *kv_usage}
    engines = len({key.rank for key in keys})
    capacity = capacities.read(samples, engine, max(1, engines))
    awake = samples.by_engine("awake", (_AWAKE,)).values()
    running_adapters, waiting_adapters, max_adapters = _adapters(samples)
    return EndpointMetrics(
        waiting=_sum(waiting),
        running=_sum(running),
        kv_usage=_mean(kv_usage),
        block_tokens=capacity.block_tokens,
        hit_unit_tokens=capacity.hit_unit_tokens,
        cpu_hit_unit_tokens=capacity.cpu_hit_unit_tokens,
        gpu_capacity_tokens=capacity.gpu_capacity_tokens,
        cpu_capacity_tokens=capacity.cpu_capacity_tokens,
        prefix_caching=capacity.prefix_caching,
        running_adapters=running_adapters,
        waiting_adapters=waiting_adapters,
        max_adapters=max_adapters,
        prompt_tokens_total=samples.total("prompt_tokens_total", engine.prompt_tokens),
        generation_tokens_total=samples.total("generation_tokens_total", engine.generation_tokens),
        cached_tokens_by_source=_cached_tokens(samples, engine),
        process_start=samples.total("process_start", (_PROCESS_START,)),
        engine=engine.name or None,
        awake=all(value > 0 for value in awake) if awake else None,
        engines=engines or None,
        waiting_for_capacity=_sum(samples.by_engine("waiting_for_capacity", (_FOR_CAPACITY,))),
        by_model=_by_model(keys, waiting, running, kv_usage),
    )


def _sum(numbers: Mapping[EngineKey, float]) -> float | None:
    return sum(numbers.values()) if numbers else None


def _mean(numbers: Mapping[EngineKey, float]) -> float | None:
    return sum(numbers.values()) / len(numbers) if numbers else None


def _by_model(keys: set[EngineKey], *gauges: Mapping[EngineKey, float]) -> dict[str, ModelLoad]:
    models = {key.model for key in keys}
    if len(models) < 2:
        return {}
    waiting, running, kv_usage = gauges
    return {
        model: ModelLoad(
            _sum({key: n for key, n in waiting.items() if key.model == model}),
            _sum({key: n for key, n in running.items() if key.model == model}),
            _mean({key: n for key, n in kv_usage.items() if key.model == model}),
        )
        for model in sorted(models)
    }


def _adapters(samples: Samples) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    """Adapters that run and wait, and how many fit; of several series the latest (largest time) is true."""
    series = [sample for sample in samples.first((_LORA,)) if sample.value == sample.value]
    if not series:
        return (), (), None
    labels = max(series, key=lambda sample: sample.value).labels
    most = labels.get("max_lora", "")
    return (
        _names(labels.get("running_lora_adapters", "")),
        _names(labels.get("waiting_lora_adapters", "")),
        int(most) if most.isdecimal() else None,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _cached_tokens(samples: Samples, engine: Engine) -> dict[str, float]:
    """Cached prompt tokens by source, from the first alternative that the page has."""
    for alternative in engine.sources:
        tokens: dict[str, float] = {}
        for source in alternative:
            renamed = dict(source.renamed)
            series = samples.first((Selector(source.name),))
            for labels, value in samples.usable("cached_tokens_by_source", series):
                label = labels.get(source.label, "")
                name = renamed.get(label, label)
                if name is not None:
                    tokens[name] = tokens.get(name, 0.0) + value
        if tokens:
            return tokens
    return {}
