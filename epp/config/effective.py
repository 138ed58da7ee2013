"""The picker's configuration as it takes effect: typed, defaulted, with the origin of every value."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from epp.config.units import format_duration
from epp.scheduling.registry import PluginKind, params_of

__all__ = [
    "EffectiveConfig", "FileDiscovery", "PluginInstance", "Profile", "Tier", "View", "WeightedScorer",
    "configuration_hash", "parameter_values",
]  # fmt: skip

Tier = Literal["gpu", "cpu"]


@dataclass(frozen=True, slots=True)
class PluginInstance:
    """One plugin. `parameters` is an instance of its type's parameters dataclass, defaults filled in.

    `path` is where it stands (`plugins[3]`), "" for a plugin that is implied, `parameters_path` where its
    parameters do; `origin` is `line N` or `implied: why`.
    """

    name: str
    type: str
    kind: PluginKind
    parameters: Any
    origin: str
    path: str = ""
    parameters_path: str = ""


@dataclass(frozen=True, slots=True)
class WeightedScorer:
    """A scorer's name and its weight in a profile; `path` is where it is referenced."""

    name: str
    weight: float
    path: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """A scheduling profile: plugin names, filters and scorers in the order of the file."""

    name: str
    filters: tuple[str, ...]
    scorers: tuple[WeightedScorer, ...]
    picker: str


@dataclass(frozen=True, slots=True)
class View:
    """One view of the prefix index, by the name of its producer.

    Attributes:
        producer: the name under which scorers read it.
        tier: what it stands for; `tier_rule` says by which rule.
        block_bytes: size of a hashed block.
        max_blocks: blocks of a prompt that are hashed, the smaller of both caps; None: no cap.
        auto_tune: the capacity is taken from the engine's metrics where they tell it.
        capacity_blocks: `lruCapacityPerServer`, engine blocks of one endpoint.
        parameters: what the file says, typed.
        origin: `line N` or `implied: why`.
    """

    producer: str
    tier: Tier
    tier_rule: str
    block_bytes: int
    max_blocks: int | None
    auto_tune: bool
    capacity_blocks: int
    parameters: Any
    origin: str


@dataclass(frozen=True, slots=True)
class FileDiscovery:
    """An endpoint file. `watch`: its changes are followed; `origin` is `line N`."""

    path: str
    watch: bool
    origin: str


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """What runs.

    Attributes:
        plugins: declared ones in the order of the file, then implied picker, handler and detector.
        profiles: in the order of the file.
        handler: name of the profile handler.
        detector: name of the saturation detector that admission asks.
        views: views of the prefix index: declared producers, then implied ones.
        warnings: what is probably a mistake.
        notes: what the file asks for and means nothing, or something else, here.
        provenance: key path → `line N`, `default` or `implied: why`.
        source: name of the file.
        hash: 16 hex digits over everything that decides (not over order, names of files or comments).
        discovery: endpoints that come from a file; None: the file says nothing of endpoints.
        text: what it was loaded from.
    """

    plugins: tuple[PluginInstance, ...]
    profiles: tuple[Profile, ...]
    handler: str
    detector: str
    views: tuple[View, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]
    source: str
    hash: str
    discovery: FileDiscovery | None = None
    text: str = field(default="", compare=False, repr=False)


def parameter_values(parameters: Any) -> dict[str, Any]:
    """Key in the file → value as JSON has it, for an instance of a parameters dataclass."""
    return {
        key: _plain(getattr(parameters, attribute), duration=known.duration)
        for key, (attribute, known) in params_of(type(parameters)).items()
    }


def _plain(value: Any, *, duration: bool = False) -> Any:
    if duration and value is not None:
        return format_duration(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return parameter_values(value) if dataclasses.is_dataclass(value) else value


def _profile_content(profile: Profile) -> list[Any]:
    return [profile.name, profile.filters, [(s.name, s.weight) for s in profile.scorers], profile.picker]


def configuration_hash(
    plugins: tuple[PluginInstance, ...],
    profiles: tuple[Profile, ...],
    handler: str,
    detector: str,
    views: tuple[View, ...],
) -> str:
    """Equal for configurations that decide equally, whatever the order of their plugins."""
    content = {
        "plugins": sorted([p.name, p.type, sorted(parameter_values(p.parameters).items())] for p in plugins),
        "profiles": [_profile_content(profile) for profile in profiles],
        "handler": handler,
        "detector": detector,
        "views": sorted(
            [v.producer, v.tier, v.block_bytes, v.max_blocks, v.auto_tune, v.capacity_blocks] for v in views
        ),
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
