"""The effective configuration for people and for programs: every value with where it comes from."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from epp.config.effective import EffectiveConfig, PluginInstance, Profile, View, parameter_values
from epp.config.settings import Settings, leaves
from epp.config.values import show_value
from epp.scheduling.producers.approx_prefix_cache import PrefixIndexParameters
from epp.scheduling.registry import params_of

__all__ = ["config_as_dict", "config_as_text", "settings_as_dict", "settings_as_text"]

_INDEX_KEYS: Final = frozenset(params_of(PrefixIndexParameters))
_Row = tuple[str, str, str]


def config_as_dict(config: EffectiveConfig) -> dict[str, Any]:
    """JSON-ready; a value with a source of its own is `{"value": …, "from": …}`."""
    return {
        "source": config.source,
        "hash": config.hash,
        "plugins": [_plugin_as_dict(config, plugin) for plugin in config.plugins],
        "profiles": [_profile_as_dict(config, profile) for profile in config.profiles],
        "handler": config.handler,
        "detector": config.detector,
        "views": [_view_as_dict(config, view) for view in config.views],
        "warnings": list(config.warnings),
        "notes": list(config.notes),
    }


def _plugin_as_dict(config: EffectiveConfig, plugin: PluginInstance) -> dict[str, Any]:
    parameters = {key: {"value": value, "from": source} for key, value, source in _parameters(config, plugin)}
    return {
        "name": plugin.name,
        "type": plugin.type,
        "kind": str(plugin.kind),
        "from": plugin.origin,
        "parameters": parameters,
    }


def _profile_as_dict(config: EffectiveConfig, profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "filters": list(profile.filters),
        "scorers": [
            {"name": s.name, "weight": {"value": s.weight, "from": config.provenance[f"{s.path}.weight"]}}
            for s in profile.scorers
        ],
        "picker": profile.picker,
    }


def _view_as_dict(config: EffectiveConfig, view: View) -> dict[str, Any]:
    values = {key: {"value": value, "from": source} for key, value, source in _view_values(config, view)}
    return {
        "producer": view.producer,
        "from": view.origin,
        "tier": {"value": view.tier, "rule": view.tier_rule},
        "blockBytes": view.block_bytes,
        "maxBlocks": view.max_blocks,
        "parameters": values,
    }


def _parameters(config: EffectiveConfig, plugin: PluginInstance) -> Iterator[tuple[str, Any, str]]:
    """Key, value and source of what a plugin is built with; index parameters belong to its view."""
    for key, value in parameter_values(plugin.parameters).items():
        if key not in _INDEX_KEYS and value is not None:
            yield key, value, config.provenance.get(f"{plugin.parameters_path}.{key}", "default")


def _view_values(config: EffectiveConfig, view: View) -> Iterator[tuple[str, Any, str]]:
    for key, value in parameter_values(view.parameters).items():
        if key != "tier" and value is not None:
            yield key, value, config.provenance[f"views[{view.producer}].{key}"]


def config_as_text(config: EffectiveConfig) -> str:
    """For a terminal: what is, what value it has, where that comes from."""
    rows: list[_Row] = [("hash", config.hash, "")]
    for profile in config.profiles:
        rows += _profile_rows(config, profile)
    rows.append(("profile handler", config.handler, _origin(config, config.handler)))
    rows.append(("saturation detector", config.detector, _origin(config, config.detector)))
    rows.append(("", "", ""))
    for plugin in config.plugins:
        rows.append((f"plugin {plugin.name}", plugin.type, plugin.origin))
        rows += [
            (f"  {path}", _shown(value), config.provenance.get(f"{plugin.parameters_path}.{path}", source))
            for key, told, source in _parameters(config, plugin)
            for path, value in _single_values(key, told)
        ]
    for view in config.views:
        rows += _view_rows(config, view)
    remarks = [f"warning: {text}" for text in config.warnings] + [f"note: {text}" for text in config.notes]
    return "\n".join([_aligned(rows), *([""] if remarks else []), *remarks])


def _profile_rows(config: EffectiveConfig, profile: Profile) -> list[_Row]:
    return [
        ("", "", ""),
        (f"profile {profile.name}", "", ""),
        *((f"  filter {name}", "", _origin(config, name)) for name in profile.filters),
        *(
            (f"  scorer {s.name}", f"weight {s.weight:g}", config.provenance[f"{s.path}.weight"])
            for s in profile.scorers
        ),
        (f"  picker {profile.picker}", "", _origin(config, profile.picker)),
    ]


def _view_rows(config: EffectiveConfig, view: View) -> list[_Row]:
    cap = "no cap" if view.max_blocks is None else f"{view.max_blocks} blocks"
    return [
        ("", "", ""),
        (f"view {view.producer}", f"tier {view.tier}", config.provenance[f"views[{view.producer}].tier"]),
        ("  origin", "", view.origin),
        ("  block", f"{view.block_bytes} bytes", ""),
        ("  hashed of a prompt", cap, ""),
        *((f"  {key}", _shown(value), source) for key, value, source in _view_values(config, view)),
    ]


def _origin(config: EffectiveConfig, name: str) -> str:
    return next(plugin.origin for plugin in config.plugins if plugin.name == name)


def _single_values(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value that may be a list or a mapping, taken apart: `conditions[0].metric`, `matchLabels.zone`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _single_values(f"{path}.{key}", inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _single_values(f"{path}[{number}]", inner)
    elif value is not None:
        yield path, value


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _aligned(rows: list[_Row]) -> str:
    left, middle = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{a:{left}}  {b:{middle}}  {c}".rstrip() for a, b, c in rows)


def settings_as_dict(settings: Settings, sources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Key path → value as it would be written, and its source; credentials are stars."""
    return {
        path: {"value": value, "from": source} for path, value, source in _settings_rows(settings, sources)
    }


def settings_as_text(settings: Settings, sources: Mapping[str, str]) -> str:
    """The same for a terminal."""
    return _aligned(_settings_rows(settings, sources))


def _settings_rows(settings: Settings, sources: Mapping[str, str]) -> list[_Row]:
    rows: list[_Row] = []
    for leaf in leaves():
        holder = attrgetter(leaf.branch)(settings) if leaf.branch else settings
        value = getattr(holder, leaf.attribute)
        rows.append((leaf.path, show_value(leaf, value), sources[leaf.path]))
    return rows
