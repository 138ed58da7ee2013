"""`dataLayer.discovery`: where the Go picker finds endpoints without Kubernetes."""

from typing import Final

from epp.config.declared import DeclaredPlugin, DeclaredPlugins
from epp.config.document import Node
from epp.config.effective import FileDiscovery
from epp.config.reader import Reader
from epp.config.references import read_reference
from epp.scheduling.file_discovery import FileDiscoveryParameters
from epp.scheduling.registry import PluginKind

__all__ = ["read_discovery"]

_KEYS: Final = ("pluginRef", "endpoints")


def read_discovery(
    reader: Reader, node: Node | None, path: str, plugins: DeclaredPlugins
) -> FileDiscovery | None:
    """The file that `pluginRef` refers to; newer pickers write `endpoints.pluginRef`."""
    chosen = None
    if node is not None:
        fields = reader.fields(node, path, _KEYS)
        if "endpoints" in fields and "pluginRef" in fields:
            message = "stands beside endpoints.pluginRef, which is its newer spelling"
            reader.problem(f"{path}.pluginRef", fields["pluginRef"], message, "keep one of them")
        elif "endpoints" in fields:
            path, node = f"{path}.endpoints", fields["endpoints"]
            fields = reader.fields(node, path, ("pluginRef",))
        kind = PluginKind.DISCOVERY
        chosen = read_reference(reader, fields.get("pluginRef"), path, node, plugins, kind=kind)
    _check_declared(reader, plugins, chosen)
    return _file_of(chosen)


def _check_declared(reader: Reader, plugins: DeclaredPlugins, chosen: DeclaredPlugin | None) -> None:
    for plugin in plugins.of_kind(PluginKind.DISCOVERY):
        if not plugin.parameters.path:
            reader.problem(f"{plugin.path}.parameters.path", plugin.node, "is missing", "name a file")
        elif plugin is not chosen:
            message = f"{plugin.name!r} has no effect: dataLayer.discovery does not refer to it"
            reader.warn(plugin.path, message)


def _file_of(plugin: DeclaredPlugin | None) -> FileDiscovery | None:
    if plugin is None or not isinstance(plugin.parameters, FileDiscoveryParameters):
        return None
    parameters = plugin.parameters
    return FileDiscovery(parameters.path or "", parameters.watch_file, f"line {plugin.node.line}")
