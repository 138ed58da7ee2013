"""What the file declares: plugins with typed parameters, and profiles with references, not yet resolved."""

from dataclasses import dataclass
from typing import Any, Final

from epp.config.compatibility import DEFAULT_PARAMETERS, UNBUILT_TYPES, refuse_unbuilt, suggest_type
from epp.config.document import MappingNode, Node, describe
from epp.config.parameters import read_parameters
from epp.config.reader import Reader
from epp.scheduling.registry import NoParameters, PluginKind, Registry

__all__ = [
    "DeclaredPlugin",
    "DeclaredPlugins",
    "DeclaredProfile",
    "Reference",
    "read_plugins",
    "read_profiles",
]

_PLUGIN_KEYS: Final = ("type", "name", "parameters")
_PROFILE_KEYS: Final = ("name", "plugins")
_REFERENCE_KEYS: Final = ("pluginRef", "weight")


@dataclass(frozen=True, slots=True)
class DeclaredPlugin:
    """An element of `plugins`. `given` are the parameter keys that stand in the file."""

    path: str
    node: MappingNode
    name: str
    type: str
    kind: PluginKind
    parameters: Any
    given: frozenset[str]

    def parameter(self, key: str) -> Node:
        """Where a parameter stands, or the plugin when it does not."""
        parameters = self.node.get("parameters")
        found = parameters.get(key) if isinstance(parameters, MappingNode) else None
        return found or self.node


@dataclass(frozen=True, slots=True)
class DeclaredPlugins:
    """All usable plugins by name, in the order of the file, and the names of those with faults."""

    by_name: dict[str, DeclaredPlugin]
    broken: frozenset[str]

    def of_kind(self, kind: PluginKind) -> list[DeclaredPlugin]:
        """Those of one extension point."""
        return [plugin for plugin in self.by_name.values() if plugin.kind is kind]


@dataclass(frozen=True, slots=True)
class Reference:
    """An element of a profile's `plugins`. `weight` None: the file gives none."""

    path: str
    node: Node
    name: str
    weight: float | None


@dataclass(frozen=True, slots=True)
class DeclaredProfile:
    """An element of `schedulingProfiles`. `complete` False: a reference in it is faulty."""

    path: str
    node: Node
    name: str
    references: tuple[Reference, ...]
    complete: bool


def read_plugins(reader: Reader, node: Node | None, registry: Registry) -> DeclaredPlugins:
    """All elements of `plugins`, each checked against its type."""
    by_name: dict[str, DeclaredPlugin] = {}
    broken: set[str] = set()
    for path, item in reader.items(node, "plugins"):
        if not isinstance(item, MappingNode):
            reader.problem(path, item, f"must be a mapping with the key type, not {describe(item)}")
            continue
        name, plugin = _read_plugin(reader, item, path, registry)
        if name and (name in by_name or name in broken):
            message = f"plugin name {name!r} used more than once"
            reader.problem(f"{path}.name", item, message, "give each plugin a name of its own")
        elif plugin is None:
            broken.add(name)
        else:
            by_name[name] = plugin
    return DeclaredPlugins(by_name, frozenset(broken))


def _read_plugin(
    reader: Reader, node: MappingNode, path: str, registry: Registry
) -> tuple[str, DeclaredPlugin | None]:
    """Its name and, unless it has faults, the plugin."""
    fields = reader.fields(node, path, _PLUGIN_KEYS)
    type_name = reader.string(fields.get("type"), f"{path}.type") or ""
    name = reader.string(fields.get("name"), f"{path}.name") or type_name
    if not type_name:
        message = f"plugin definition for {name!r} is missing a type"
        reader.problem(f"{path}.type", node, message, suggest_type(name, _type_names(registry)))
        return name, None
    if "name" not in fields:
        reader.provenance[f"{path}.name"] = "default"
    found = _find_type(reader, fields["type"], f"{path}.type", type_name, registry)
    if found is None:
        return name, None
    kind, parameters_class, doc, deprecated = found
    if kind is PluginKind.INERT:
        reader.note(f"{path}.type", f"{type_name}: {doc}")
    if deprecated:
        reader.warn(f"{path}.type", f"{type_name} is deprecated: {deprecated}")
    before = len(reader.problems)
    parameters, given = read_parameters(
        reader, fields.get("parameters"), f"{path}.parameters", type_name, parameters_class
    )
    if len(reader.problems) > before:
        return name, None
    return name, DeclaredPlugin(path, node, name, type_name, kind, parameters, given)


def _type_names(registry: Registry) -> tuple[str, ...]:
    return tuple(plugin_type.type for plugin_type in registry.types())


def _find_type(
    reader: Reader, node: Node, path: str, name: str, registry: Registry
) -> tuple[PluginKind, type, str, str] | None:
    """Kind, parameters, meaning and deprecation of a type that may be used."""
    found = registry.get(name)
    if found is not None:
        return found.kind, found.parameters, found.doc, found.deprecated
    if name in DEFAULT_PARAMETERS:
        return PluginKind.INERT, NoParameters, "Accepted with its defaults, configures nothing.", ""
    if name in UNBUILT_TYPES:
        refuse_unbuilt(reader, path, node, f"plugin type {name!r}", "remove the plugin and what refers to it")
    else:
        message = f"plugin type {name!r} is not found in registry"
        reader.problem(path, node, message, suggest_type(name, _type_names(registry)))
    return None


def read_profiles(reader: Reader, node: Node | None) -> list[DeclaredProfile]:
    """All elements of `schedulingProfiles`."""
    profiles: dict[str, DeclaredProfile] = {}
    for path, item in reader.items(node, "schedulingProfiles"):
        fields = reader.fields(item, path, _PROFILE_KEYS)
        name = reader.string(fields.get("name"), f"{path}.name") or ""
        references = _read_references(reader, fields.get("plugins"), f"{path}.plugins")
        if not name:
            reader.problem(f"{path}.name", item, "profile is missing a name", "add name: default")
        elif name in profiles:
            reader.problem(
                f"{path}.name", item, f"profile name {name!r} used more than once", "rename one of them"
            )
        used = [reference for reference in references if reference is not None]
        complete = len(used) == len(references)
        profiles.setdefault(name, DeclaredProfile(path, item, name, tuple(used), complete))
    return list(profiles.values())


def _read_references(reader: Reader, node: Node | None, path: str) -> list[Reference | None]:
    references: list[Reference | None] = []
    for item_path, item in reader.items(node, path):
        fields = reader.fields(item, item_path, _REFERENCE_KEYS)
        name = reader.string(fields.get("pluginRef"), f"{item_path}.pluginRef")
        weight = _read_weight(reader, fields.get("weight"), f"{item_path}.weight")
        if name:
            references.append(Reference(item_path, item, name, weight))
        else:
            message = "is missing a plugin reference"
            reader.problem(f"{item_path}.pluginRef", item, message, "write the name of a plugin")
            references.append(None)
    return references


def _read_weight(reader: Reader, node: Node | None, path: str) -> float | None:
    """A finite number that is not negative; an integer is as good as a fraction."""
    weight = reader.number(node, path) if node is not None else None
    if weight is not None and weight < 0:
        reader.problem(path, node, f"must be 0 or more, not {weight:g}", "write 0 to switch a scorer off")
    return weight
