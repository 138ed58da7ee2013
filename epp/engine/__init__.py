"""A vLLM server as a model: token blocks in two tiers, continuous batching, latency.

Pure: the time is an argument, nothing is shared with the router's own hashing.
"""

from epp.engine.cpu_tier import CpuTier
from epp.engine.engine import Engine
from epp.engine.grid import Grid, GridLatency
from epp.engine.hardware import GPUS, MODELS, Gpu, ModelShape, kernel_latency, read_config
from epp.engine.keys import block_keys, chain_seed
from epp.engine.latency import KernelLatency, LatencyProfile, LinearLatency, StepLatency, StepLoad
from epp.engine.run import StepRun
from epp.engine.types import (
    EngineConfig,
    EngineCounters,
    EngineGauges,
    EngineRequest,
    FinishReason,
    StepOutput,
    StepResult,
    Timeline,
)

__all__ = [
    "GPUS",
    "MODELS",
    "CpuTier",
    "Engine",
    "EngineConfig",
    "EngineCounters",
    "EngineGauges",
    "EngineRequest",
    "FinishReason",
    "Gpu",
    "Grid",
    "GridLatency",
    "KernelLatency",
    "LatencyProfile",
    "LinearLatency",
    "ModelShape",
    "StepLatency",
    "StepLoad",
    "StepOutput",
    "StepResult",
    "StepRun",
    "Timeline",
    "block_keys",
    "chain_seed",
    "kernel_latency",
    "read_config",
]
