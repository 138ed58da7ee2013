"""Does the engine offload its KV cache, and how much fits."""

import re
from dataclasses import dataclass
from typing import Final

from epp.doctor.checks_cache import block_tokens
from epp.doctor.kv_sizes import GIB, KvSize, blocks_in, kv_size
from epp.doctor.observation import Observation
from epp.endpoints.types import EndpointMetrics

__all__ = ["CpuCapacity", "cpu_capacity", "offloading_gib", "offloads", "size_of_model"]

_EVIDENCE: Final = ("vllm:kv_offload_", "vllm:simple_kv_offload_", "lmcache:", "sglang:hicache_")
_CONNECTOR: Final = "vllm:num_requests_kv_fetch_by_stage"  # of whatever kind
_OUTSIDE: Final = ("host", "disk", "p2p", "external_unspecified")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class CpuCapacity:
    """Engine blocks of the CPU tier of one engine, and where the number comes from."""

    blocks: int
    source: str


def offloads(seen: Observation, metrics: EndpointMetrics) -> bool | None:
    """True: the page shows it. False: this engine would show it. None: it cannot tell.

    vLLM's offload connector has metrics since 0.16, LMCache in the engine's process has its own; a connector
    to an LMCache server shows itself since 0.32, before that by its first hit.
    """
    if any(name.startswith(_EVIDENCE) for name in seen.names) or offloading_gib(seen) is not None:
        return True
    if any(metrics.cached_tokens_by_source.get(source, 0.0) > 0 for source in _OUTSIDE):
        return True
    if _CONNECTOR in seen.names:
        return None
    return False if seen.at_least(0, 16) or seen.engine == "sglang" else None


def offloading_gib(seen: Observation) -> float | None:
    """`--kv-offloading-size`, GiB over all tensor-parallel ranks."""
    text = seen.cache_config.get("kv_offloading_size", "")
    return float(text) if _NUMBER.fullmatch(text) and float(text) > 0 else None


def size_of_model(seen: Observation) -> KvSize | None:
    """KV bytes a token of the base model, if it is well known."""
    names = [name for model in seen.base_models for name in (model.id, model.root or "")]
    return kv_size(names, seen.cache_config.get("cache_dtype", "auto"))


def cpu_capacity(seen: Observation, metrics: EndpointMetrics) -> CpuCapacity | None:
    """What the engine tells, else what follows from its flags and its model."""
    block = block_tokens(metrics)
    if metrics.cpu_capacity_tokens:
        return CpuCapacity(metrics.cpu_capacity_tokens // block, "the engine tells")
    gib, size = offloading_gib(seen), size_of_model(seen)
    if gib is None or size is None or seen.cache_config.get("kv_offloading_backend") != "native":
        return None
    source = (
        f"--kv-offloading-size {gib:g} GiB ÷ {size.bytes_per_token / 1024:g} KiB a token of {size.model} "
        f"÷ {block} tokens"
    )
    return CpuCapacity(blocks_in(gib * GIB, size, block), source)
