"""file-discovery: where the endpoints stand, in the configurations of the Go picker."""

from dataclasses import dataclass

from epp.scheduling.contracts import BuildContext
from epp.scheduling.registry import PluginKind, PluginType, param

__all__ = ["FileDiscoveryParameters", "file_discovery_type"]


@dataclass(frozen=True, slots=True)
class FileDiscoveryParameters:
    """Parameters of file-discovery."""

    path: str | None = param(None, key="path", doc="The endpoint file; required.")
    watch_file: bool = param(False, key="watchFile", doc="Follow changes of the file; else it is read once.")


def _nothing(_name: str, _parameters: object, _context: BuildContext) -> None:
    """Builds no plugin: the composition root reads the parameters."""


def file_discovery_type() -> PluginType:
    """The type; it counts where `dataLayer.discovery` refers to it."""
    return PluginType(
        "file-discovery",
        PluginKind.DISCOVERY,
        FileDiscoveryParameters,
        _nothing,
        "Endpoints from a file, where dataLayer.discovery refers to it.",
    )
