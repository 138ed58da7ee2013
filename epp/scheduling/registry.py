"""The plugin types that exist, with their parameters: what configuration is checked against.

A plugin module declares a frozen dataclass of parameters (fields made with `param`) and registers its class
in a catalog (`epp/scheduling/catalog.py`, `epp/flow/catalog.py`). Nothing registers itself at import.

A parameter's type is `bool`, `int`, `float`, `str`, each maybe `| None`; `Mapping[str, str]`; another
parameters dataclass; or `tuple[X, ...]` of `str` or of a parameters dataclass.
"""

import builtins
import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from epp.scheduling.contracts import BuildContext

__all__ = [
    "CheckedParameters", "Fault", "NoParameters", "Param", "PluginKind", "PluginType", "Registry", "param",
    "params_of",
]  # fmt: skip


class PluginKind(enum.StrEnum):
    """Extension points."""

    FILTER = "filter"
    SCORER = "scorer"
    PICKER = "picker"
    HANDLER = "profile handler"
    PRODUCER = "producer"
    DISCOVERY = "discovery"
    DETECTOR = "saturation detector"  # also a filter, where a profile names it
    RESPONSE = "answer of a gateway"  # read by the front door for gateways; decides nothing
    INERT = "inert"  # accepted for compatibility, means nothing here; its doc says why


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter as configuration sees it. Bounds are inclusive; `above` is exclusive.

    `duration`: written as `200ms` or `5s`, in seconds here. `required`: the file must give it.
    """

    key: str
    type: Any
    default: Any
    doc: str
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    deprecated: str = ""
    duration: bool = False
    required: bool = False


def param(
    default: Any,
    *,
    key: str,
    doc: str,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    deprecated: str = "",
    duration: bool = False,
    required: bool = False,
) -> Any:
    """A field of a parameters dataclass: `key` is the camelCase name in the file.

    The result is `Any` because a dataclass field is typed by its annotation.
    """
    metadata = {
        "key": key,
        "doc": doc,
        "minimum": minimum,
        "above": above,
        "maximum": maximum,
        "choices": choices,
        "deprecated": deprecated,
        "duration": duration,
        "required": required,
    }
    return dataclasses.field(default=default, metadata=metadata)


def params_of(parameters: type) -> dict[str, tuple[str, Param]]:
    """Key in the file → (attribute name, parameter), for a parameters dataclass."""
    found: dict[str, tuple[str, Param]] = {}
    for field in dataclasses.fields(parameters):
        meta = dict(field.metadata)
        key = meta.pop("key")
        found[key] = (field.name, Param(key=key, type=field.type, default=field.default, **meta))
    return found


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule over more than one parameter that is broken: at which key, how, and what to write instead."""

    key: str
    message: str
    remedy: str


@runtime_checkable
class CheckedParameters(Protocol):
    """Parameters with rules over more than one of them."""

    def faults(self) -> Iterable[Fault]:
        """Every rule that is broken."""
        ...


@dataclass(frozen=True, slots=True)
class NoParameters:
    """A plugin without parameters."""


@dataclass(frozen=True, slots=True)
class PluginType:
    """A registered type. `build(name, parameters, context)` makes the plugin.

    `deprecated` says what to write instead; "" for a type that is not.
    """

    type: str
    kind: PluginKind
    parameters: builtins.type  # a dataclass of `param` fields
    build: Callable[[str, Any, BuildContext], Any]
    doc: str
    deprecated: str = ""


class Registry:
    """Plugin types by name."""

    def __init__(self, types: Sequence[PluginType]) -> None:
        self._types = {t.type: t for t in types}
        if len(self._types) != len(types):
            raise ValueError("a plugin type is registered twice")

    def get(self, plugin_type: str) -> PluginType | None:
        """The type of that name, None when there is none."""
        return self._types.get(plugin_type)

    def types(self) -> list[PluginType]:
        """All types, by name."""
        return [self._types[name] for name in sorted(self._types)]
