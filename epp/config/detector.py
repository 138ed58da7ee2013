"""Which saturation detector admission asks, in the forms of all versions of the Go picker.

GIE 1.2 to 1.4: a section `saturationDetector` with thresholds. GIE 1.5: the same with `pluginRef`. Later:
`flowControl.saturationDetector` with `pluginRef`, which is read whatever the gate flowControl says. Without
any it is the plugin named `utilization-detector`, or one with default values where none is declared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from epp.config.declared import DeclaredPlugins
from epp.config.document import MappingNode, Node
from epp.config.effective import PluginInstance
from epp.config.parameters import read_parameters
from epp.config.reader import Reader, listed
from epp.scheduling.registry import PluginKind, PluginType, Registry

__all__ = ["DEFAULT_DETECTOR", "DETECTOR_SECTION", "Detector", "resolve_detector"]

DEFAULT_DETECTOR: Final = "utilization-detector"
DETECTOR_SECTION: Final = "saturationDetector"
_REFERENCE_KEYS: Final = ("pluginRef",)


@dataclass(frozen=True, slots=True)
class Detector:
    """The detector's name, and the plugin when it is implied."""

    name: str
    implied: tuple[PluginInstance, ...] = ()


def resolve_detector(
    reader: Reader, fields: Mapping[str, Node], plugins: DeclaredPlugins, registry: Registry
) -> Detector:
    """The detector that the top-level `fields` ask for; faults are problems of `reader`."""
    flow_control = fields.get("flowControl")
    in_flow_control = flow_control.get(DETECTOR_SECTION) if isinstance(flow_control, MappingNode) else None
    at_top = fields.get(DETECTOR_SECTION)
    if at_top is not None and in_flow_control is not None:
        message = f"is given beside flowControl.{DETECTOR_SECTION}"
        reader.problem(DETECTOR_SECTION, at_top, message, f"keep flowControl.{DETECTOR_SECTION}")
    if in_flow_control is not None:
        return _referenced(reader, in_flow_control, f"flowControl.{DETECTOR_SECTION}", plugins, registry)
    if isinstance(at_top, MappingNode) and at_top.get("pluginRef") is not None:
        return _referenced(reader, at_top, DETECTOR_SECTION, plugins, registry)
    if at_top is not None:
        return _with_values(reader, at_top, plugins, registry)
    declared = plugins.by_name.get(DEFAULT_DETECTOR)
    if declared is not None and declared.kind is PluginKind.DETECTOR:
        return Detector(DEFAULT_DETECTOR)
    return _implied(reader, plugins, registry, "no saturation detector is named")


def _referenced(
    reader: Reader, node: Node, path: str, plugins: DeclaredPlugins, registry: Registry
) -> Detector:
    reference = reader.fields(node, path, _REFERENCE_KEYS).get("pluginRef")
    path = f"{path}.pluginRef"
    name = reader.string(reference, path) or ""
    plugin = plugins.by_name.get(name)
    if plugin is not None and plugin.kind is PluginKind.DETECTOR:
        return Detector(name)
    if plugin is not None:
        message = f"plugin {name!r} is a {plugin.kind}, not a {PluginKind.DETECTOR}"
        reader.problem(path, reference, message, f"detectors: {listed(_detectors(registry))}")
    elif not name:
        reader.problem(path, node, "is missing a plugin reference", "write the name of a plugin")
    elif name == DEFAULT_DETECTOR:
        return _implied(reader, plugins, registry, "it is named and not declared")
    elif name not in plugins.broken:
        message = f"reference to undefined plugin {name!r}"
        reader.problem(path, reference, message, "declare it under plugins")
    return Detector(name)


def _with_values(reader: Reader, node: Node, plugins: DeclaredPlugins, registry: Registry) -> Detector:
    """Thresholds in the section itself."""
    found = _default_type(registry)
    parameters, _ = read_parameters(reader, node, DETECTOR_SECTION, found.type, found.parameters)
    _refuse_taken(reader, plugins, f"the section {DETECTOR_SECTION} has values")
    origin = f"line {node.line}"
    implied = PluginInstance(
        found.type, found.type, found.kind, parameters, origin, DETECTOR_SECTION, DETECTOR_SECTION
    )
    return Detector(implied.name, (implied,))


def _implied(reader: Reader, plugins: DeclaredPlugins, registry: Registry, why: str) -> Detector:
    found = _default_type(registry)
    _refuse_taken(reader, plugins, why)
    implied = PluginInstance(found.type, found.type, found.kind, found.parameters(), f"implied: {why}")
    return Detector(implied.name, (implied,))


def _refuse_taken(reader: Reader, plugins: DeclaredPlugins, why: str) -> None:
    taken = plugins.by_name.get(DEFAULT_DETECTOR)
    if taken is not None:
        message = (
            f"the name {DEFAULT_DETECTOR!r} belongs to the plugin of that type, which is implied ({why})"
        )
        reader.problem(f"{taken.path}.name", taken.node, message, "rename this plugin")


def _default_type(registry: Registry) -> PluginType:
    found = registry.get(DEFAULT_DETECTOR)
    if found is None:
        raise LookupError(f"the registry has no {DEFAULT_DETECTOR}")
    return found


def _detectors(registry: Registry) -> list[str]:
    return [found.type for found in registry.types() if found.kind is PluginKind.DETECTOR]
