"""How much an engine's tiers hold, and in which units, from its page."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from epp.scrape.engines import Engine, Selector
from epp.scrape.samples import Samples

__all__ = ["Capacity", "CapacityReader"]

_VLLM_INFO: Final = (
    "vllm:cache_config_info",
    "vllm:kv_offload_config_info",
    "vllm:simple_kv_offload_info",
)
_KNOWN_CONFIGURATIONS: Final = 1024


class Capacity(msgspec.Struct, frozen=True):
    """Of one data-parallel engine; None: the page does not say."""

    block_tokens: int | None = None
    hit_unit_tokens: int | None = None
    cpu_hit_unit_tokens: int | None = None
    gpu_capacity_tokens: int | None = None
    cpu_capacity_tokens: int | None = None
    prefix_caching: bool | None = None


class CapacityReader:
    """Reads capacities, a vLLM's configuration only once: its labels do not change while it runs."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], tuple[list[Mapping[str, str]], Capacity]] = {}

    def read(self, samples: Samples, engine: Engine, engines: int) -> Capacity:
        """Capacities of one of `engines` data-parallel engines. Where they differ the smallest counts."""
        if engine.name != "vllm":
            return _read_other(samples, engine)
        labels = [found for name in _VLLM_INFO for found in samples.labels(name)]
        # Label sets that came before are the same objects again; an entry holds its own, so ids stay theirs.
        key = engines, tuple(map(id, labels))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KNOWN_CONFIGURATIONS:
                self._known.clear()
            known = self._known[key] = labels, _read_vllm(samples, engines)
        return known[1]


def _read_other(samples: Samples, engine: Engine) -> Capacity:
    """Gauges, and SGLang's labels."""
    config = samples.labels("sglang:cache_config_info") if engine.name == "sglang" else []
    block = _gauge(samples, "block_tokens", engine.block_tokens) or _number(config, "page_size")
    blocks = _gauge(samples, "gpu_capacity_tokens", engine.blocks) or _number(config, "num_pages")
    capacity = _gauge(samples, "gpu_capacity_tokens", engine.capacity_tokens)
    return Capacity(
        block_tokens=block,
        gpu_capacity_tokens=capacity or _product(blocks, block),
        cpu_capacity_tokens=_gauge(samples, "cpu_capacity_tokens", engine.cpu_capacity_tokens),
    )


def _read_vllm(samples: Samples, engines: int) -> Capacity:
    """The labels in which vLLM tells its configuration.

    `num_gpu_blocks` is the sum over the data-parallel engines of the frontend, though each of them repeats
    it; `kv_cache_size_tokens` (since 0.24) is one engine's own.
    """
    config = samples.labels("vllm:cache_config_info")
    block = _number(config, "block_size")
    blocks = _number(config, "num_gpu_blocks")
    of_one = blocks // engines if blocks is not None else None
    offload = samples.labels("vllm:kv_offload_config_info")
    chunk = _product(_number(offload, "cpu_blocks_per_chunk"), block)
    simple = _number(samples.labels("vllm:simple_kv_offload_info"), "capacity_blocks")
    return Capacity(
        block_tokens=block,
        hit_unit_tokens=_number(config, "cache_hit_alignment_tokens") or _number(config, "prefix_match_unit"),
        cpu_hit_unit_tokens=chunk,
        gpu_capacity_tokens=_number(config, "kv_cache_size_tokens") or _product(of_one, block),
        cpu_capacity_tokens=_number(offload, "cpu_kv_cache_size_tokens")
        or _product(_number(offload, "cpu_num_chunks"), chunk)
        or _product(simple, block),
        prefix_caching=_flag(config, "enable_prefix_caching"),
    )


def _number(series: Iterable[Mapping[str, str]], label: str) -> int | None:
    """The smallest positive number that a label has; unset labels read "None"."""
    texts = [labels.get(label, "") for labels in series]
    return min((int(text) for text in texts if text.isdecimal() and int(text) > 0), default=None)


def _flag(series: Iterable[Mapping[str, str]], label: str) -> bool | None:
    texts = {labels.get(label, "") for labels in series}
    return False if "False" in texts else True if "True" in texts else None


def _gauge(samples: Samples, field: str, selectors: Iterable[Selector]) -> int | None:
    numbers = samples.by_engine(field, selectors).values()
    return min((int(number) for number in numbers if number >= 1), default=None)


def _product(left: int | None, right: int | None) -> int | None:
    return left * right if left and right else None
