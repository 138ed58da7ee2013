"""The plugin types of flow control, in one list."""

from epp.flow.concurrency import ConcurrencyDetector, ConcurrencyDetectorParameters
from epp.flow.utilization import UtilizationDetector, UtilizationDetectorParameters
from epp.scheduling.registry import PluginKind, PluginType

__all__ = ["flow_types"]


def flow_types() -> list[PluginType]:
    """Saturation detectors."""
    return [
        PluginType(
            UtilizationDetector.type,
            PluginKind.DETECTOR,
            UtilizationDetectorParameters,
            UtilizationDetector.build,
            "Saturation by requests waiting and KV blocks in use, as scraped.",
        ),
        PluginType(
            ConcurrencyDetector.type,
            PluginKind.DETECTOR,
            ConcurrencyDetectorParameters,
            ConcurrencyDetector.build,
            "Saturation by requests or tokens of this router in flight.",
        ),
    ]
