"""An HTTP server that behaves like vLLM 0.32, on the engine model and with a real tokenizer."""

from epp.engine import LinearLatency
from epp.simserver.server import SimServer
from epp.simserver.settings import DEFAULT_MODEL, SimSettings

__all__ = ["DEFAULT_MODEL", "LinearLatency", "SimServer", "SimSettings"]
