"""Scheduling profiles and the profile handler: references resolved, defaults filled in.

Defaulting is the Go picker's (llm-d-router, `pkg/epp/config/loader/defaults.go`): without profiles one named
`default` holds every filter, detector (they filter, too), scorer and picker; one profile without a handler
gets `single-profile-handler`; a profile without a picker gets the declared one, or `max-score-picker` when
none is declared.
"""

from dataclasses import dataclass
from typing import Final

from epp.config.declared import DeclaredPlugin, DeclaredPlugins, DeclaredProfile, Reference
from epp.config.document import Node
from epp.config.effective import PluginInstance, Profile, WeightedScorer
from epp.config.reader import Reader, listed, unknown_word_remedy
from epp.scheduling.registry import PluginKind, Registry

__all__ = ["DEFAULT_HANDLER", "DEFAULT_PICKER", "Scheduling", "resolve_scheduling"]

DEFAULT_PICKER: Final = "max-score-picker"
DEFAULT_HANDLER: Final = "single-profile-handler"
_FILTERS: Final = (PluginKind.FILTER, PluginKind.DETECTOR)  # a detector in a profile is a filter


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Profiles, the handler's name, and the plugins that are implied."""

    profiles: tuple[Profile, ...]
    handler: str
    implied: tuple[PluginInstance, ...]


def resolve_scheduling(
    reader: Reader,
    plugins: DeclaredPlugins,
    declared: list[DeclaredProfile],
    registry: Registry,
    detector: str = "",
) -> Scheduling:
    """Resolve what the file declares; faults are problems of `reader`. `detector` is in use anyway."""
    picker, implied = _default_picker(reader, plugins, registry)
    if declared:
        profiles = tuple(_profile(reader, profile, plugins, picker) for profile in declared)
        _warn_unreferenced(reader, plugins, declared, detector)
    else:
        profiles = (_all_plugins(reader, plugins, picker),)
    handler, implied_handlers = _handler(reader, plugins, profiles, registry)
    return Scheduling(profiles, handler, (*implied, *implied_handlers))


def _imply(
    reader: Reader, plugins: DeclaredPlugins, registry: Registry, type_name: str, why: str
) -> PluginInstance:
    """A plugin that the file does not declare, under the name of its type."""
    taken = plugins.by_name.get(type_name)
    if taken is not None:
        message = f"the name {type_name!r} belongs to the plugin of that type, which is implied ({why})"
        reader.problem(f"{taken.path}.name", taken.node, message, "rename this plugin")
    found = registry.get(type_name)
    if found is None:
        raise LookupError(f"the registry has no {type_name}")
    return PluginInstance(type_name, type_name, found.kind, found.parameters(), f"implied: {why}")


def _default_picker(
    reader: Reader, plugins: DeclaredPlugins, registry: Registry
) -> tuple[str | None, list[PluginInstance]]:
    """The picker of profiles that name none; None when several are declared."""
    pickers = plugins.of_kind(PluginKind.PICKER)
    if not pickers and DEFAULT_PICKER not in plugins.broken:
        implied = _imply(reader, plugins, registry, DEFAULT_PICKER, "no picker is declared")
        return implied.name, [implied]
    return (pickers[0].name if len(pickers) == 1 else None), []


def _profile(
    reader: Reader, declared: DeclaredProfile, plugins: DeclaredPlugins, picker: str | None
) -> Profile:
    filters: list[str] = []
    scorers: list[WeightedScorer] = []
    pickers: list[str] = []
    for reference, plugin in _resolved(reader, declared, plugins):
        _check_weight(reader, reference, plugin)
        if plugin.kind is PluginKind.SCORER:
            scorers.append(WeightedScorer(plugin.name, _weight(reader, reference), reference.path))
        elif plugin.kind in _FILTERS:
            filters.append(plugin.name)
        elif plugin.kind is PluginKind.PICKER:
            pickers.append(plugin.name)
        else:
            reader.warn(reference.path, f"{plugin.name!r} ({plugin.kind}) does nothing in a profile")
    chosen = _picker(reader, declared.path, declared.node, pickers, picker, plugins)
    _warn_without_scores(reader, declared, scorers)
    return Profile(declared.name, tuple(filters), tuple(scorers), chosen)


def _resolved(
    reader: Reader, profile: DeclaredProfile, plugins: DeclaredPlugins
) -> list[tuple[Reference, DeclaredPlugin]]:
    """References with their plugins; those to faulty plugins are left out in silence."""
    found: list[tuple[Reference, DeclaredPlugin]] = []
    seen: set[str] = set()
    for reference in profile.references:
        path, plugin = f"{reference.path}.pluginRef", plugins.by_name.get(reference.name)
        if reference.name in seen:
            message = f"plugin {reference.name!r} is referenced twice in profile {profile.name!r}"
            reader.problem(path, reference.node, message, "keep one reference and add the weights")
        elif plugin is not None:
            found.append((reference, plugin))
        elif reference.name not in plugins.broken:
            remedy = unknown_word_remedy(reference.name, tuple(plugins.by_name), "plugins here")
            reader.problem(path, reference.node, f"reference to undefined plugin {reference.name!r}", remedy)
        seen.add(reference.name)
    return found


def _check_weight(reader: Reader, reference: Reference, plugin: DeclaredPlugin) -> None:
    if reference.weight is not None and plugin.kind is not PluginKind.SCORER:
        reader.warn(
            f"{reference.path}.weight", f"{plugin.name!r} is a {plugin.kind}; only scorers have a weight"
        )


def _weight(reader: Reader, reference: Reference) -> float:
    if reference.weight is not None:
        return reference.weight
    reader.provenance[f"{reference.path}.weight"] = "default"
    return 1.0


def _picker(
    reader: Reader,
    path: str,
    node: Node | None,
    named: list[str],
    default: str | None,
    plugins: DeclaredPlugins,
) -> str:
    """The one picker of a profile; "" after a fault."""
    if len(named) > 1:
        message = (
            f"failed to set {named[1]!r} as picker, already have a registered picker plugin {named[0]!r}"
        )
        reader.problem(path, node, message, "keep one picker in a profile")
    if named:
        return named[0]
    if default is None and not plugins.broken:
        several = listed(plugin.name for plugin in plugins.of_kind(PluginKind.PICKER))
        reader.problem(
            path, node, f"has no picker, and several are declared ({several})", "reference one of them"
        )
    return default or ""


def _warn_without_scores(reader: Reader, declared: DeclaredProfile, scorers: list[WeightedScorer]) -> None:
    if declared.complete and not any(scorer.weight for scorer in scorers):
        reader.warn(
            declared.path, f"no scorer has a weight in profile {declared.name!r}, so every endpoint ties"
        )


def _all_plugins(reader: Reader, plugins: DeclaredPlugins, picker: str | None) -> Profile:
    """The profile of a file that has none."""
    path = "schedulingProfiles[0]"
    reader.provenance[f"{path}.name"] = "implied: the file has no profile"
    filters = [plugin.name for plugin in plugins.by_name.values() if plugin.kind in _FILTERS]
    scorers = [plugin.name for plugin in plugins.of_kind(PluginKind.SCORER)]
    pickers = [plugin.name for plugin in plugins.of_kind(PluginKind.PICKER)]
    weighted = [WeightedScorer(name, 1.0, f"{path}.plugins[{i}]") for i, name in enumerate(scorers)]
    reader.provenance |= {f"{scorer.path}.weight": "default" for scorer in weighted}
    if not scorers and not plugins.broken:
        reader.warn("plugins", "no scorer is declared, so every endpoint ties")
    chosen = _picker(reader, "plugins", None, pickers, picker, plugins)
    return Profile("default", tuple(filters), tuple(weighted), chosen)


def _warn_unreferenced(
    reader: Reader, plugins: DeclaredPlugins, declared: list[DeclaredProfile], detector: str
) -> None:
    used = {reference.name for profile in declared for reference in profile.references} | {detector}
    for plugin in plugins.by_name.values():
        if plugin.kind in (*_FILTERS, PluginKind.SCORER) and plugin.name not in used:
            reader.warn(plugin.path, f"{plugin.kind} {plugin.name!r} is in no profile and has no effect")


def _handler(
    reader: Reader, plugins: DeclaredPlugins, profiles: tuple[Profile, ...], registry: Registry
) -> tuple[str, list[PluginInstance]]:
    handlers = plugins.of_kind(PluginKind.HANDLER)
    if len(handlers) > 1:
        both = f"Both {handlers[0].name!r} and {handlers[1].name!r} are profile handlers"
        message = f"only one profile handler is allowed. {both}"
        reader.problem(handlers[1].path, handlers[1].node, message, "remove one of them")
    if not handlers and len(profiles) > 1:
        remedy = f"keep one profile; the only handler is {DEFAULT_HANDLER}, which runs one"
        reader.problem("schedulingProfiles", None, "no profile handler was specified", remedy)
    if handlers and handlers[0].type == DEFAULT_HANDLER and len(profiles) > 1:
        message = (
            "single profile handler is intended to be used with a single profile, but multiple profiles were "
            f"specified ({listed(profile.name for profile in profiles)})"
        )
        reader.problem(handlers[0].path, handlers[0].node, message, "keep one profile")
    if handlers:
        return handlers[0].name, []
    if DEFAULT_HANDLER in plugins.broken:
        return DEFAULT_HANDLER, []
    implied = _imply(reader, plugins, registry, DEFAULT_HANDLER, "no profile handler is declared")
    return implied.name, [implied]
