"""From text to the effective picker configuration, or to everything that is wrong with it."""

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from epp.config.catalog import default_registry
from epp.config.compatibility import read_feature_gates
from epp.config.declared import DeclaredPlugin, read_plugins, read_profiles
from epp.config.detector import resolve_detector
from epp.config.document import MappingNode, Node, describe, parse
from epp.config.effective import EffectiveConfig, PluginInstance, configuration_hash
from epp.config.producers import resolve_producers, with_producer
from epp.config.profiles import resolve_scheduling
from epp.config.reader import Reader, listed
from epp.config.sections import read_sections
from epp.config.views import build_views
from epp.errors import ConfigError, ConfigProblem
from epp.scheduling.registry import PluginKind, Registry

__all__ = ["API_VERSIONS", "KIND", "load_config"]

API_VERSIONS: Final = ("inference.networking.x-k8s.io/v1alpha1", "llm-d.ai/v1alpha1", "llm-d.ai/v1")
KIND: Final = "EndpointPickerConfig"

_TOP_LEVEL_KEYS: Final = (
    "apiVersion", "kind", "featureGates", "plugins", "schedulingProfiles", "dataLayer", "data", "flowControl",
    "requestHandler", "parser", "saturationDetector",
)  # fmt: skip
_NO_SCHEDULING: Final = frozenset({PluginKind.INERT, PluginKind.DISCOVERY})


def load_config(
    text: str, source: str = "configuration", registry: Registry | None = None, first_line: int = 1
) -> EffectiveConfig:
    """The configuration that `text` (YAML or JSON) makes effective.

    `source` names the text in messages, `registry` holds the plugin types (default: this router's),
    `first_line` is the number of the text's first line when it is a part of a file.

    Raises:
        ConfigError: with every problem found, in the order of the lines.
    """
    reader = Reader()
    parsed = parse(text, first_line)
    reader.problems += parsed.problems
    root = _single_mapping(reader, parsed.documents)
    config = None
    if root is not None:
        config = replace(_load(reader, root, registry or default_registry(), source), text=text)
    if config is None or reader.problems:
        raise ConfigError(_in_order(reader.problems), source)
    return config


def _in_order(problems: list[ConfigProblem]) -> list[ConfigProblem]:
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


def _single_mapping(reader: Reader, documents: tuple[Node, ...]) -> MappingNode | None:
    """The one document, if it is an EndpointPickerConfig at all."""
    if not documents:
        if not reader.problems:
            reader.problem(
                "document", None, "is empty", f"write an {KIND}, or leave the file out for the default"
            )
        return None
    if len(documents) > 1:
        reader.problem(
            "document", documents[1], f"is followed by another one, {len(documents)} in all", "keep one"
        )
    root = documents[0]
    if not isinstance(root, MappingNode):
        reader.problem("document", root, f"must be a mapping, not {describe(root)}")
        return None
    return root if _check_kind(reader, root) else None


def _check_kind(reader: Reader, root: MappingNode) -> bool:
    """Whether to go on: a document of another kind has no faults of ours."""
    kind = reader.string(root.get("kind"), "kind")
    version = reader.string(root.get("apiVersion"), "apiVersion")
    if kind != KIND:
        said = "is missing" if kind is None else f"must be {KIND}, not {kind!r}"
        remedy = f"write kind: {KIND} (`epp check` also finds it in Helm values and ConfigMaps)"
        reader.problem("kind", root.get("kind") or root, said, remedy)
        return False
    if version not in API_VERSIONS:
        said = "is missing" if version is None else f"{version!r} is unknown"
        reader.problem("apiVersion", root.get("apiVersion") or root, said, f"one of: {listed(API_VERSIONS)}")
    return True


def _load(reader: Reader, root: MappingNode, registry: Registry, source: str) -> EffectiveConfig:
    fields = reader.fields(root, "", _TOP_LEVEL_KEYS)
    read_feature_gates(reader, fields.get("featureGates"))
    plugins = read_plugins(reader, fields.get("plugins"), registry)
    profiles = read_profiles(reader, fields.get("schedulingProfiles"))
    discovery = read_sections(reader, fields, plugins)
    producers, reads = resolve_producers(reader, plugins)
    views = build_views(reader, producers)
    detector = resolve_detector(reader, fields, plugins, registry)
    scheduling = resolve_scheduling(reader, plugins, profiles, registry, detector.name)
    declared = [p for p in plugins.by_name.values() if p.kind not in _NO_SCHEDULING]
    instances = (
        *(_instance(reader, p, reads) for p in declared), *scheduling.implied, *detector.implied
    )  # fmt: skip
    return EffectiveConfig(
        plugins=instances,
        profiles=scheduling.profiles,
        handler=scheduling.handler,
        detector=detector.name,
        views=views,
        warnings=tuple(reader.warnings),
        notes=tuple(reader.notes),
        provenance=MappingProxyType(reader.provenance),
        source=source,
        hash=configuration_hash(instances, scheduling.profiles, scheduling.handler, detector.name, views),
        discovery=discovery,
    )


def _instance(reader: Reader, plugin: DeclaredPlugin, reads: dict[str, str]) -> PluginInstance:
    producer = reads.get(plugin.name)
    parameters = with_producer(reader, plugin, producer) if producer else plugin.parameters
    origin = f"line {plugin.node.line}"
    return PluginInstance(
        plugin.name, plugin.type, plugin.kind, parameters, origin, plugin.path, f"{plugin.path}.parameters"
    )
