"""The top-level sections beside plugins and profiles: what they may say here, and what it means."""

from collections.abc import Mapping
from typing import Final

from epp.config.compatibility import DATA_LAYER_KEYS, DEFAULT_PARSERS, FLOW_CONTROL_KEYS, refuse_unbuilt
from epp.config.declared import DeclaredPlugins
from epp.config.detector import DETECTOR_SECTION
from epp.config.document import Node
from epp.config.reader import Reader
from epp.scheduling.registry import PluginKind

__all__ = ["read_sections"]

_SOURCE_KEYS: Final = ("pluginRef", "extractors")
_REFERENCE_KEYS: Final = ("pluginRef",)


def read_sections(reader: Reader, fields: Mapping[str, Node], plugins: DeclaredPlugins) -> None:
    """Check every section but the saturation detector's; what means nothing here is noted."""
    _read_flow_control(reader, fields.get("flowControl"))
    _read_data_layer(reader, fields, plugins)
    _read_parsers(reader, fields, plugins)


def _read_flow_control(reader: Reader, node: Node | None) -> None:
    for key, value in reader.fields(node, "flowControl", (*FLOW_CONTROL_KEYS, DETECTOR_SECTION)).items():
        if key != DETECTOR_SECTION:
            refuse_unbuilt(reader, f"flowControl.{key}", value, f"flow control ({key})")


def _read_data_layer(reader: Reader, fields: Mapping[str, Node], plugins: DeclaredPlugins) -> None:
    """`dataLayer`, which GIE 1.3 and 1.4 call `data`."""
    if "data" in fields and "dataLayer" in fields:
        reader.problem(
            "data", fields["data"], "is the old name of dataLayer, which is given too", "keep dataLayer"
        )
    section = "dataLayer" if "dataLayer" in fields else "data"
    layer = reader.fields(fields.get(section), section, DATA_LAYER_KEYS)
    for key, value in layer.items():
        path = f"{section}.{key}"
        if key == "injectDefaults":
            reader.boolean(value, path)
            reader.note(path, "means nothing here: endpoints are always scraped")
        elif key == "sources":
            _read_sources(reader, value, path, plugins)
        else:
            refuse_unbuilt(reader, path, value, key)


def _read_sources(reader: Reader, node: Node, path: str, plugins: DeclaredPlugins) -> None:
    for source_path, source in reader.items(node, path):
        fields = reader.fields(source, source_path, _SOURCE_KEYS)
        _read_reference(reader, fields.get("pluginRef"), source_path, source, plugins)
        extractors = fields.get("extractors")
        for extractor_path, extractor in reader.items(extractors, f"{source_path}.extractors"):
            reference = reader.fields(extractor, extractor_path, _REFERENCE_KEYS).get("pluginRef")
            _read_reference(reader, reference, extractor_path, extractor, plugins)


def _read_parsers(reader: Reader, fields: Mapping[str, Node], plugins: DeclaredPlugins) -> None:
    """`requestHandler.parsers`, which GIE 1.5 calls `parser`."""
    handler = reader.fields(fields.get("requestHandler"), "requestHandler", ("parsers",))
    parsers = reader.items(handler.get("parsers"), "requestHandler.parsers")
    if "parser" in fields:
        parsers.append(("parser", fields["parser"]))
    for path, parser in parsers:
        reference = reader.fields(parser, path, _REFERENCE_KEYS).get("pluginRef")
        _read_reference(reader, reference, path, parser, plugins, DEFAULT_PARSERS)
    if parsers:
        reader.note(parsers[0][0], "means nothing here: the parser is chosen by the request's path")


def _read_reference(
    reader: Reader,
    node: Node | None,
    path: str,
    parent: Node,
    plugins: DeclaredPlugins,
    built_in: frozenset[str] = frozenset(),
) -> None:
    """A `pluginRef` that must name a declared plugin, or one that is always there."""
    name = reader.string(node, f"{path}.pluginRef")
    plugin = plugins.by_name.get(name or "")
    if not name:
        reader.problem(
            f"{path}.pluginRef", parent, "is missing a plugin reference", "write the name of a plugin"
        )
    elif plugin is not None and plugin.kind is not PluginKind.INERT:
        message = f"plugin {name!r} is a {plugin.kind} and cannot stand here"
        reader.problem(f"{path}.pluginRef", node, message, "remove the reference")
    elif plugin is None and name not in built_in and name not in plugins.broken:
        message = f"reference to undefined plugin {name!r}"
        reader.problem(f"{path}.pluginRef", node, message, "declare it under plugins")
