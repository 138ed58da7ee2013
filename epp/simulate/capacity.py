"""How much KV cache fits where: blocks for bytes, bytes for blocks, and figures that disagree."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from epp.engine import Gpu, ModelShape

__all__ = ["Capacity", "Given", "capacity"]

GIB: Final = float(1 << 30)
_PAGE_BYTES: Final = 4_096  # vLLM rounds a block of the CPU tier up to whole pages
_ACTIVATIONS: Final = 0.04  # of GPU memory: activations, graphs and the runtime, while profiling
_TOLERANCE: Final = 0.05
_LMCACHE: Final = '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of one server.

    Attributes:
        tp: tensor-parallel ranks.
        block_tokens: tokens in an engine block.
        element_bytes: of a key or value, 2 for bf16 and 1 for fp8.
        gpu_memory_utilization: the engine's flag.
        gpu_blocks: what its log says, None where not known; then they are estimated.
        cpu_bytes: memory for the CPU tier of the whole server.
        cpu_blocks: its size in blocks, in place of bytes or beside them.
        bytes_per_token: a figure that somebody states, to be checked.
    """

    tp: int = 1
    block_tokens: int = 16
    element_bytes: float = 2.0
    gpu_memory_utilization: float = 0.9
    gpu_blocks: int | None = None
    cpu_bytes: float | None = None
    cpu_blocks: int | None = None
    bytes_per_token: float | None = None

    def __post_init__(self) -> None:
        for name in ("tp", "block_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(
                f"gpu_memory_utilization must be above 0 and at most 1, got {self.gpu_memory_utilization}"
            )
        for name in ("gpu_blocks", "cpu_bytes", "cpu_blocks", "bytes_per_token", "element_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value:g}")


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes are of the whole server, over all ranks; `warnings` say which given figures disagree.

    `gpu_blocks_estimated`: they come from memory and weights, not from a log.
    """

    bytes_per_token: int
    bytes_per_block: int
    gpu_blocks: int
    gpu_blocks_estimated: bool
    gpu_tokens: int
    gpu_bytes: int
    cpu_blocks: int | None
    cpu_tokens: int | None
    cpu_bytes: int | None
    warnings: tuple[str, ...]
    settings: tuple[str, ...]


def capacity(shape: ModelShape, gpu: Gpu, given: Given) -> Capacity:
    """What fits.

    Raises:
        ValueError: the weights do not fit.
    """
    per_token = shape.kv_bytes_per_token(given.element_bytes)
    per_block = per_token * given.block_tokens
    gpu_blocks = (
        given.gpu_blocks if given.gpu_blocks is not None else _gpu_blocks(shape, gpu, given, per_block)
    )
    cpu_block_bytes = -(-per_block // _PAGE_BYTES) * _PAGE_BYTES
    cpu_blocks = given.cpu_blocks
    if cpu_blocks is None and given.cpu_bytes is not None:
        cpu_blocks = int(given.cpu_bytes // cpu_block_bytes)
    return Capacity(
        bytes_per_token=per_token,
        bytes_per_block=per_block,
        gpu_blocks=gpu_blocks,
        gpu_blocks_estimated=given.gpu_blocks is None,
        gpu_tokens=gpu_blocks * given.block_tokens,
        gpu_bytes=gpu_blocks * per_block,
        cpu_blocks=cpu_blocks,
        cpu_tokens=None if cpu_blocks is None else cpu_blocks * given.block_tokens,
        cpu_bytes=None if cpu_blocks is None else cpu_blocks * cpu_block_bytes,
        warnings=tuple(_warnings(shape, gpu, given, per_token, cpu_block_bytes)),
        settings=_settings(gpu_blocks, given, cpu_blocks, cpu_block_bytes),
    )


def _gpu_blocks(shape: ModelShape, gpu: Gpu, given: Given, per_block: int) -> int:
    """As vLLM does it, with activations and the runtime estimated."""
    memory = given.tp * gpu.memory_bytes * (given.gpu_memory_utilization - _ACTIVATIONS)
    weights = shape.parameters * shape.weight_bytes
    if memory <= weights + per_block:
        raise ValueError(
            f"weights of {weights / GIB:.0f} GiB do not fit {given.tp} x {gpu.name} at "
            f"{given.gpu_memory_utilization:g}: use more ranks, or a larger share"
        )
    return int((memory - weights) // per_block)


def _warnings(
    shape: ModelShape, gpu: Gpu, given: Given, per_token: int, cpu_block_bytes: int
) -> Iterator[str]:
    if given.bytes_per_token is not None and not _near(given.bytes_per_token, per_token):
        said = f"a token takes {per_token:,} bytes, not {given.bytes_per_token:,.0f}"
        yield said + _head_size_guess(shape, given, given.bytes_per_token)
    if given.cpu_blocks is not None and given.cpu_bytes is not None:
        needed = given.cpu_blocks * cpu_block_bytes
        if not _near(needed, given.cpu_bytes):
            fits = int(given.cpu_bytes // cpu_block_bytes)
            yield (
                f"{given.cpu_blocks:,} CPU blocks are {needed / 1e9:.0f} GB; {given.cpu_bytes / 1e9:.0f} GB "
                f"are {fits:,} blocks"
            )
    if given.gpu_blocks is not None:
        wanted = given.gpu_blocks * per_token * given.block_tokens + shape.parameters * shape.weight_bytes
        if wanted > given.tp * gpu.memory_bytes:
            yield (
                f"{given.gpu_blocks:,} GPU blocks and the weights are {wanted / 1e9:.0f} GB, more than "
                f"{given.tp} x {gpu.memory_bytes / 1e9:.0f} GB"
            )
    if given.tp > shape.kv_heads:
        yield (
            f"tp {given.tp} is above the {shape.kv_heads} KV heads: ranks keep copies, and a token takes "
            f"{given.tp / shape.kv_heads:g} times as much over all of them"
        )


def _near(one: float, other: float) -> bool:
    return abs(one / other - 1) <= _TOLERANCE


def _head_size_guess(shape: ModelShape, given: Given, stated: float) -> str:
    """The usual mistake: hidden size over heads, where the model has a head size of its own."""
    head = shape.hidden // shape.heads
    by_hidden = 2 * shape.kv_layers * shape.kv_heads * head * given.element_bytes
    if head == shape.head_dim or not _near(stated, by_hidden):
        return ""
    return (
        f"; that is hidden_size / num_attention_heads = {head} as head size, but head_dim is {shape.head_dim}"
    )


def _settings(gpu_blocks: int, given: Given, cpu_blocks: int | None, cpu_block_bytes: int) -> tuple[str, ...]:
    """What to write where."""
    view = "view of the prefix index"
    lines = [
        f"GPU {view}: autoTune: true (the engine tells its size), else lruCapacityPerServer: {gpu_blocks}"
    ]
    if cpu_blocks is not None:
        gib = cpu_blocks * cpu_block_bytes / GIB
        lines += [
            f"CPU {view}: lruCapacityPerServer: {cpu_blocks} (engine blocks of {given.block_tokens} tokens)",
            f"vLLM native offload: --kv-offloading-backend native --kv-offloading-size {gib:.1f}",
            f"LMCache: LMCACHE_MAX_LOCAL_CPU_SIZE={gib / given.tp:.1f} (GiB, for each of {given.tp} ranks)",
            f"LMCache: --kv-transfer-config '{_LMCACHE}'",
        ]
    return tuple(lines)
