"""A vLLM server as a model: token blocks in two tiers, continuous batching, latency.

Pure: the time is an argument, nothing is shared with the router's own hashing.
"""

from epp.engine.engine import Engine
from epp.engine.keys import block_keys, chain_seed
from epp.engine.latency import LatencyProfile, LinearLatency, StepLoad
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
    "Engine",
    "EngineConfig",
    "EngineCounters",
    "EngineGauges",
    "EngineRequest",
    "FinishReason",
    "LatencyProfile",
    "LinearLatency",
    "StepLoad",
    "StepOutput",
    "StepResult",
    "Timeline",
    "block_keys",
    "chain_seed",
]
