"""The fleet that a simulation runs on."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from epp.engine import EngineConfig, StepLatency

__all__ = ["Fleet", "Offload", "engine_config"]

LMCACHE_CHUNK_TOKENS: Final = 256
NATIVE_STEP_S: Final = 0.0002  # connector work in each step, on top of the profile's overhead
LMCACHE_STEP_S: Final = 0.00045
SHARED_LINK_BYTES_PER_S: Final = 6e9
SHARED_LINK_LATENCY_S: Final = 0.020


class Offload(StrEnum):
    """What stands behind the GPU tier."""

    NONE = "none"
    NATIVE = "native"
    LMCACHE_LOCAL = "lmcache-local"
    LMCACHE_SHARED = "lmcache-shared"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Servers of one kind.

    Attributes:
        engines: how many.
        gpu_tokens: KV tokens that one server's GPU tier holds.
        cpu_tokens: the same of its CPU tier; of a shared one, its part.
        kv_bytes_per_token: on one GPU.
        latency: step times without offload, and the link of native offload.
        block_tokens: granularity of the model; coarser than the engine's 16 is faster, and as good.
        api_s, api_token_s: from a request's arrival at the router to the engine's queue: HTTP and
            tokenising, once and for each prompt token.
        scrape_s: seconds between two scrapes.
        report_cpu_tier: metrics tell the CPU tier's size.
        step_noise: standard deviation of a step's duration, as a share of it (for tests of robustness).
        output_counted: tokens that the client counts for one generated (it decodes and encodes again).
    """

    engines: int
    gpu_tokens: int
    latency: StepLatency
    kv_bytes_per_token: int
    offload: Offload = Offload.NONE
    cpu_tokens: int = 0
    model: str = "model"
    block_tokens: int = 64
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    api_s: float = 0.030
    api_token_s: float = 1.2e-6
    scrape_s: float = 0.05
    report_cpu_tier: bool = True
    step_noise: float = 0.0
    output_counted: float = 1.0

    def __post_init__(self) -> None:
        if self.engines < 1:
            raise ValueError(f"engines must be at least 1, got {self.engines}")
        if self.gpu_tokens < self.block_tokens:
            raise ValueError(f"gpu_tokens must be at least {self.block_tokens}, got {self.gpu_tokens}")
        if self.offload is not Offload.NONE and self.cpu_tokens < self.block_tokens:
            raise ValueError(
                f"offload {self.offload} needs cpu_tokens of at least {self.block_tokens}, "
                f"got {self.cpu_tokens}"
            )
        if self.scrape_s <= 0:
            raise ValueError(f"scrape_s must be positive, got {self.scrape_s}")

    @property
    def tier_tokens(self) -> int:
        """Tokens that one server's part of the CPU tier holds; 0 without offload."""
        return 0 if self.offload is Offload.NONE else self.cpu_tokens

    @property
    def step_latency(self) -> StepLatency:
        """Step times with what the offload connector costs."""
        if self.offload is Offload.NONE:
            return self.latency
        extra_s = NATIVE_STEP_S if self.offload is Offload.NATIVE else LMCACHE_STEP_S
        latency = self.latency.with_overhead(extra_s)
        if self.offload is Offload.LMCACHE_SHARED:
            return latency.with_link(SHARED_LINK_BYTES_PER_S, SHARED_LINK_LATENCY_S)
        return latency


def engine_config(fleet: Fleet) -> EngineConfig:
    """One server of the fleet as an engine."""
    lmcache = fleet.offload in (Offload.LMCACHE_LOCAL, Offload.LMCACHE_SHARED)
    return EngineConfig(
        gpu_blocks=fleet.gpu_tokens // fleet.block_tokens + 1,
        cpu_blocks=fleet.tier_tokens // fleet.block_tokens,
        block_tokens=fleet.block_tokens,
        max_num_seqs=fleet.max_num_seqs,
        max_num_batched_tokens=fleet.max_num_batched_tokens,
        kv_bytes_per_token=fleet.kv_bytes_per_token,
        cpu_unit_blocks=max(1, LMCACHE_CHUNK_TOKENS // fleet.block_tokens) if lmcache else 1,
        cpu_synchronous=fleet.offload is Offload.LMCACHE_LOCAL,
    )
