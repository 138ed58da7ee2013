"""Who reads which prefix producer: named, of the scorer's own, or the default one.

A prefix-cache-scorer that names a producer reads that one; with index parameters of its own it owns an
implied producer of its own name; with neither it reads the default producer, which exists as soon as somebody
reads it. Both at once is an error.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from epp.config.declared import DeclaredPlugin, DeclaredPlugins
from epp.config.document import Node
from epp.config.reader import Reader, listed, unknown_word_remedy
from epp.scheduling.producers.approx_prefix_cache import DEFAULT_PRODUCER, PrefixIndexParameters
from epp.scheduling.registry import PluginKind, params_of

__all__ = ["READ_EVERY_VIEW", "Producer", "producer_of", "resolve_producers", "with_producer"]

PRODUCER_KEY: Final = "prefixMatchInfoProducerName"
READ_EVERY_VIEW: Final = frozenset(
    {
        "cache-aware-scorer", "kv-overlap-cost-scorer", "lmetric-scorer", "prefix-cache-affinity-filter",
        "ttft-cost-scorer",
    }
)  # fmt: skip
"""Types that take the longest match that any view knows, and name no producer."""
_INDEX_KEYS: Final = frozenset(params_of(PrefixIndexParameters))


@dataclass(frozen=True, slots=True)
class Producer:
    """One producer. `plugin` is the one that declares its parameters, None for the implied default."""

    name: str
    parameters: PrefixIndexParameters
    origin: str
    plugin: DeclaredPlugin | None = None

    def path_of(self, key: str) -> str:
        """Path of one of its parameters."""
        return f"{self.plugin.path}.parameters.{key}" if self.plugin else f"views[{self.name}].{key}"

    def where(self, key: str) -> tuple[str, Node | None]:
        """Path and place of one of its parameters."""
        return self.path_of(key), self.plugin.parameter(key) if self.plugin else None


def resolve_producers(reader: Reader, plugins: DeclaredPlugins) -> tuple[list[Producer], dict[str, str]]:
    """All producers, declared ones first, and what each reader reads (plugin name → producer name)."""
    producers = {p.name: p for p in (*_declared(plugins), *_owned(plugins))}
    readers = [p for p in plugins.by_name.values() if _can_read(p)]
    reads = {p.name: wanted for p in readers if (wanted := _wanted(reader, p, plugins, producers))}
    readers_of_any = [p.name for p in readers if p.name not in reads and producer_of(p.parameters) is None]
    by_default = [name for name, wanted in reads.items() if wanted == DEFAULT_PRODUCER]
    if not producers and not by_default:
        by_default = readers_of_any
    if by_default and DEFAULT_PRODUCER not in producers:
        producers.update(_default(reader, plugins, by_default))
    if not readers_of_any and not any(p.type in READ_EVERY_VIEW for p in plugins.by_name.values()):
        _warn_unread(reader, producers.values(), reads)
    return list(producers.values()), reads


def producer_of(parameters: Any) -> str | None:
    """The producer that parameters name, None for none."""
    attribute, _ = params_of(type(parameters))[PRODUCER_KEY]
    name: str | None = getattr(parameters, attribute)
    return name or None


def with_producer(reader: Reader, plugin: DeclaredPlugin, producer: str) -> Any:
    """The plugin's parameters with the producer it reads filled in."""
    attribute, _ = params_of(type(plugin.parameters))[PRODUCER_KEY]
    if producer_of(plugin.parameters) is None:
        why = "it has index parameters of its own" if _own_keys(plugin) else "it names no producer"
        reader.provenance[f"{plugin.path}.parameters.{PRODUCER_KEY}"] = f"implied: {why}"
    return dataclasses.replace(plugin.parameters, **{attribute: producer})


def _declared(plugins: DeclaredPlugins) -> list[Producer]:
    return [
        Producer(p.name, p.parameters, f"line {p.node.line}", p)
        for p in plugins.of_kind(PluginKind.PRODUCER)
        if isinstance(p.parameters, PrefixIndexParameters)
    ]


def _owned(plugins: DeclaredPlugins) -> list[Producer]:
    return [
        Producer(
            p.name, _index_parameters(p.parameters), f"implied: {p.path} has index parameters of its own", p
        )
        for p in plugins.of_kind(PluginKind.SCORER)
        if _own_keys(p) and producer_of(p.parameters) is None
    ]


def _index_parameters(parameters: PrefixIndexParameters) -> PrefixIndexParameters:
    names = [field.name for field in dataclasses.fields(PrefixIndexParameters)]
    return PrefixIndexParameters(**{name: getattr(parameters, name) for name in names})


def _own_keys(plugin: DeclaredPlugin) -> list[str]:
    return sorted(plugin.given & _INDEX_KEYS) if isinstance(plugin.parameters, PrefixIndexParameters) else []


def _can_read(plugin: DeclaredPlugin) -> bool:
    return plugin.kind is PluginKind.SCORER and PRODUCER_KEY in params_of(type(plugin.parameters))


def _wanted(
    reader: Reader, plugin: DeclaredPlugin, plugins: DeclaredPlugins, producers: dict[str, Producer]
) -> str | None:
    """The producer that a reader reads, None when it reads all or names a wrong one."""
    named, own = producer_of(plugin.parameters), _own_keys(plugin)
    path = f"{plugin.path}.parameters.{PRODUCER_KEY}"
    if named and own:
        message = f"{plugin.name!r} reads {named!r} and has index parameters of its own ({listed(own)})"
        reader.problem(
            path, plugin.parameter(PRODUCER_KEY), message, f"move them to {named!r} or remove {PRODUCER_KEY}"
        )
        return None
    if not named:
        default = DEFAULT_PRODUCER if isinstance(plugin.parameters, PrefixIndexParameters) else None
        return plugin.name if own else default
    if named in producers or named in (DEFAULT_PRODUCER, *plugins.broken):
        return named
    message = f"reference to undefined producer {named!r}"
    remedy = unknown_word_remedy(
        named, tuple(producers), f"declare an {DEFAULT_PRODUCER} so named; producers here"
    )
    reader.problem(path, plugin.parameter(PRODUCER_KEY), message, remedy)
    return None


def _default(reader: Reader, plugins: DeclaredPlugins, readers: list[str]) -> dict[str, Producer]:
    taken = plugins.by_name.get(DEFAULT_PRODUCER)
    if taken is not None:
        message = (
            f"the name {DEFAULT_PRODUCER!r} belongs to the default producer, which {listed(readers)} reads"
        )
        reader.problem(f"{taken.path}.name", taken.node, message, "rename this plugin")
    if taken is not None or DEFAULT_PRODUCER in plugins.broken:
        return {}
    origin = f"implied: read by {listed(readers)}"
    return {DEFAULT_PRODUCER: Producer(DEFAULT_PRODUCER, PrefixIndexParameters(), origin)}


def _warn_unread(reader: Reader, producers: Iterable[Producer], reads: dict[str, str]) -> None:
    for producer in producers:
        if producer.plugin is not None and producer.name not in reads.values():
            reader.warn(producer.plugin.path, f"no scorer reads the producer {producer.name!r}")
