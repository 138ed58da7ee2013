"""A `pluginRef` outside of profiles."""

from epp.config.declared import DeclaredPlugin, DeclaredPlugins
from epp.config.document import Node
from epp.config.reader import Reader
from epp.scheduling.registry import PluginKind

__all__ = ["read_reference"]


def read_reference(
    reader: Reader,
    node: Node | None,
    path: str,
    parent: Node,
    plugins: DeclaredPlugins,
    built_in: frozenset[str] = frozenset(),
    kind: PluginKind = PluginKind.INERT,
) -> DeclaredPlugin | None:
    """The plugin of `kind` that is meant; those in `built_in` need not be declared. None after a fault."""
    name = reader.string(node, f"{path}.pluginRef")
    plugin = plugins.by_name.get(name or "")
    if not name:
        reader.problem(
            f"{path}.pluginRef", parent, "is missing a plugin reference", "write the name of a plugin"
        )
    elif plugin is not None and plugin.kind is not kind:
        message = f"plugin {name!r} is a {plugin.kind} and cannot stand here"
        reader.problem(f"{path}.pluginRef", node, message, "remove the reference")
    elif plugin is None and name not in built_in and name not in plugins.broken:
        message = f"reference to undefined plugin {name!r}"
        reader.problem(f"{path}.pluginRef", node, message, "declare it under plugins")
    return plugin
