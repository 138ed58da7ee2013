"""Is there a CPU tier where the configuration has one, and is it as large as the configuration says."""

from collections.abc import Iterator, Mapping
from typing import Final

from epp.config.effective import EffectiveConfig, View
from epp.doctor.checks_cache import block_tokens, differs
from epp.doctor.finding import Finding, finding
from epp.doctor.kv_sizes import GIB, KvSize, blocks_in
from epp.doctor.needs import views_of
from epp.doctor.observation import Observation
from epp.doctor.offload import CpuCapacity, cpu_capacity, offloads, size_of_model
from epp.endpoints.types import EndpointMetrics

__all__ = ["check_cpu_tier"]

# llm-d's guide to the tiered prefix cache: 2.62 MB a block is Qwen3-14B's, not Qwen3-32B's.
_GUIDE_GIB: Final[Mapping[int, int]] = {41_000: 100, 82_000: 200}
_FORMULA: Final = (
    "lruCapacityPerServer = CPU bytes of the engine ÷ (2 · layers · KV heads · head size · bytes an element) "
    "÷ block tokens"
)


def check_cpu_tier(seen: Observation, config: EffectiveConfig) -> Iterator[Finding]:
    """Views of tier cpu against what the engine offloads."""
    metrics = seen.metrics
    if metrics is None or metrics.engine is None:
        return
    views = views_of(config, "cpu")
    offloading = offloads(seen, metrics)
    if not views and offloading and config.views:
        yield _unscored(seen, metrics)
    if not views:
        return
    if not offloading:
        yield _absent(seen, views, proven=offloading is False)
    for view in views:
        yield from _size(seen, metrics, view, offloading)
    yield from _small(seen, metrics)


def _unscored(seen: Observation, metrics: EndpointMetrics) -> Finding:
    capacity = cpu_capacity(seen, metrics)
    size = f" lruCapacityPerServer: {capacity.blocks}" if capacity else " lruCapacityPerServer"
    auto = "" if metrics.cpu_capacity_tokens is None else ", or autoTune: true"
    return finding(
        "cpu-tier-unscored",
        seen.address,
        f"the page shows an offload tier{_told(capacity)}",
        "prefixes that have left the GPU tier are held there, but no scorer sends requests to them",
        f"add an approx-prefix-cache-producer with tier: cpu and{size}{auto}, and a prefix-cache-scorer that "
        "reads it",
    )


def _told(capacity: CpuCapacity | None) -> str:
    return f" of {capacity.blocks} blocks ({capacity.source})" if capacity else ""


def _absent(seen: Observation, views: tuple[View, ...], *, proven: bool) -> Finding:
    names = ", ".join(view.producer for view in views)
    if proven:
        return finding(
            "cpu-tier-absent",
            seen.address,
            f"kv_offloading_size={seen.cache_config.get('kv_offloading_size', 'None')}, and no metrics "
            "vllm:kv_offload_*, vllm:simple_kv_offload_*, lmcache:* or sglang:hicache_*",
            f"view {names}: predicts hits in a tier that is not there, and so draws requests to prefixes "
            "that are gone",
            "start vLLM with --kv-offloading-size GIB --kv-offloading-backend native, or take the view and "
            "its scorer out of the configuration; an LMCache server shows itself with its first hit",
        )
    return finding(
        "cpu-tier-unproven",
        seen.address,
        "no offload metrics, but this engine need not have them (vLLM before 0.16, LMCache servers)",
        f"view {names}: nothing shows whether the tier that it predicts is there",
        "none needed if the engine runs with --kv-transfer-config or --kv-offloading-size",
    )


def _size(
    seen: Observation, metrics: EndpointMetrics, view: View, offloading: bool | None
) -> Iterator[Finding]:
    capacity = cpu_capacity(seen, metrics)
    if capacity is not None:
        uses_it = view.auto_tune and metrics.cpu_capacity_tokens
        if capacity.blocks and not uses_it and differs(view.capacity_blocks, capacity.blocks):
            yield _differs(seen, view, capacity)
    elif view.capacity_blocks in _GUIDE_GIB:
        yield from _guide_constant(seen, metrics, view)
    elif offloading:
        yield _untold(seen, metrics, view)


def _differs(seen: Observation, view: View, capacity: CpuCapacity) -> Finding:
    ratio = view.capacity_blocks / capacity.blocks
    return finding(
        "cpu-capacity-differs",
        seen.address,
        f"lruCapacityPerServer: {view.capacity_blocks}, {capacity.source}: {capacity.blocks} blocks; "
        f"{ratio:.2f} times",
        f"view {view.producer}: "
        + ("predicts hits of evicted prefixes" if ratio > 1 else "forgets what is still held"),
        f"lruCapacityPerServer: {capacity.blocks} in the parameters of {view.producer}",
    )


def _guide_constant(seen: Observation, metrics: EndpointMetrics, view: View) -> Iterator[Finding]:
    """The guide's number of blocks, unless the model is one for which it is true."""
    size, block, gib = size_of_model(seen), block_tokens(metrics), _GUIDE_GIB[view.capacity_blocks]
    told = f"lruCapacityPerServer: {view.capacity_blocks}, the guide's {gib} GiB at 2.5 MiB a block"
    why = f"view {view.producer}: a wrong capacity predicts hits of evicted prefixes"
    if size is None:
        remedy = f"compute it for your model: {_FORMULA}"
        yield finding("cpu-capacity-seed", seen.address, f"{told}; the model is not known here", why, remedy)
        return
    real = blocks_in(gib * GIB, size, block)
    if not differs(view.capacity_blocks, real):
        return
    yield finding(
        "cpu-capacity-seed",
        seen.address,
        f"{told}; {size.model} takes {_mib(size, block)} MiB a block of {block} tokens: {gib} GiB are {real} "
        f"blocks, and {view.capacity_blocks} blocks take {_gb(view.capacity_blocks, size, block)} GB",
        why,
        f"lruCapacityPerServer: {real} in the parameters of {view.producer} if the engine has {gib} GiB "
        f"(cpu_bytes_to_use, --kv-offloading-size {gib}); with num_cpu_blocks: {view.capacity_blocks} (vLLM "
        "up to 0.13) the number is right and the memory is what to check",
    )


def _untold(seen: Observation, metrics: EndpointMetrics, view: View) -> Finding:
    size, block = size_of_model(seen), block_tokens(metrics)
    told = f"lruCapacityPerServer: {view.capacity_blocks}"
    if size is not None:
        told += f" blocks are {_gb(view.capacity_blocks, size, block)} GB of {size.model}'s KV cache"
    why = f"view {view.producer}: nothing shows whether the configured capacity is the engine's"
    if seen.at_least(0, 33):
        return finding(
            "cpu-capacity-pending",
            seen.address,
            f"no vllm:kv_offload_config_info yet; {told}",
            f"view {view.producer}: the configured capacity is used until the engine tells its own",
            "send one request (or run this with --probe), then check again",
        )
    return finding(
        "cpu-capacity-untold",
        seen.address,
        f"the engine does not tell the size of its CPU tier (vLLM does since 0.33); {told}",
        why,
        f"compare by hand: {_FORMULA}",
    )


def _small(seen: Observation, metrics: EndpointMetrics) -> Iterator[Finding]:
    capacity, block = cpu_capacity(seen, metrics), block_tokens(metrics)
    if capacity is None or metrics.gpu_capacity_tokens is None:
        return
    cpu_tokens = capacity.blocks * block
    if cpu_tokens < metrics.gpu_capacity_tokens:
        yield finding(
            "cpu-tier-small",
            seen.address,
            f"CPU tier {cpu_tokens} tokens, GPU tier {metrics.gpu_capacity_tokens}",
            "what the GPU tier holds is copied, so a smaller CPU tier holds hardly anything else",
            "give the tier more memory than all KV cache of the GPUs, or leave it out",
        )


def _mib(size: KvSize, block: int) -> str:
    return f"{size.block_bytes(block) / (1 << 20):g}"


def _gb(blocks: int, size: KvSize, block: int) -> str:
    return f"{blocks * size.block_bytes(block) / 1e9:.1f}"
