"""The tables of docs/configuration.md, made from the code; run as a program it renews them.

.venv/bin/python -m tests.config.reference_tables
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import get_args, get_origin

from epp.config.catalog import default_registry
from epp.config.compatibility import UNBUILT_TYPES
from epp.config.settings import Settings, leaves, sections
from epp.config.units import format_duration
from epp.config.values import show_default
from epp.scheduling.registry import Param, PluginKind, PluginType, params_of

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def settings_tables() -> str:
    parts = []
    for branch, holder in {"": Settings, **sections()}.items():
        rows = [
            (
                f"`{leaf.path}`",
                f"`{leaf.flag}`" + (f", `{leaf.rules.alias}`" if leaf.rules.alias else ""),
                f"`{leaf.variable}`",
                leaf.kind.value
                if not leaf.rules.choices
                else ", ".join(f"`{c}`" for c in leaf.rules.choices),
                show_default(leaf),
                leaf.rules.doc,
            )
            for leaf in leaves()
            if leaf.branch == branch
        ]
        title = "Top level" if not branch else holder.__doc__.partition("\n")[0].rstrip(".")
        parts.append(
            f"### {title}\n\n" + table(("key", "flag", "variable", "value", "default", "meaning"), rows)
        )
    return "\n\n".join(parts)


def plugin_tables() -> str:
    types = default_registry().types()
    parts = [table(("type", "kind", "meaning"), [(f"`{t.type}`", str(t.kind), meaning(t)) for t in types])]
    parts += [parameter_table(t) for t in types if params_of(t.parameters)]
    parts.append(
        "Known, but not yet supported: " + ", ".join(f"`{name}`" for name in sorted(UNBUILT_TYPES)) + "."
    )
    return "\n\n".join(parts)


def meaning(plugin_type: PluginType) -> str:
    deprecated = f" Deprecated: {plugin_type.deprecated}." if plugin_type.deprecated else ""
    return plugin_type.doc + deprecated


def parameter_table(plugin_type: PluginType) -> str:
    keys = params_of(plugin_type.parameters)
    inherited = params_of(default_registry().get("approx-prefix-cache-producer").parameters)
    own = plugin_type.kind is PluginKind.PRODUCER
    rows = [
        (
            f"`{path}`",
            shown(param),
            bounds(param),
            param.doc + (f" Deprecated: {param.deprecated}." if param.deprecated else ""),
        )
        for path, param in all_params(plugin_type.parameters)
        if own or path not in inherited
    ]
    more = (
        ""
        if own or not keys.keys() & inherited.keys()
        else "\n\nAnd every parameter of `approx-prefix-cache-producer`."
    )
    return (
        f"Parameters of `{plugin_type.type}`:\n\n"
        + table(("parameter", "default", "values", "meaning"), rows)
        + more
    )


def all_params(parameters: type, prefix: str = "") -> Iterator[tuple[str, Param]]:
    """Path and parameter, those of nested parameters after the one that holds them."""
    for key, (_, param) in params_of(parameters).items():
        yield f"{prefix}{key}", param
        kind = kind_of(param)
        (inner,) = get_args(kind)[:1] if get_origin(kind) is tuple else (kind,)
        if dataclasses.is_dataclass(inner):
            brackets = "[]" if get_origin(kind) is tuple else ""
            yield from all_params(inner, f"{prefix}{key}{brackets}.")


def kind_of(param: Param) -> object:
    """The type without None."""
    if get_origin(param.type) is tuple:
        return param.type
    return next(k for k in (get_args(param.type) or (param.type,)) if k is not NoneType)


def shown(param: Param) -> str:
    if param.required:
        return "required"
    value = param.default
    if value is None or value == ():
        return "absent"
    if param.duration:
        return format_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def bounds(param: Param) -> str:
    if param.duration:
        return "duration"
    kind = kind_of(param)
    if get_origin(kind) is tuple:
        return "list of names" if get_args(kind)[0] is str else "list"
    if get_origin(kind) is Mapping:
        return "mapping of names"
    if dataclasses.is_dataclass(kind):
        return "mapping"
    if param.choices:
        return ", ".join(f"`{choice}`" for choice in param.choices)
    parts = [f"> {param.above:g}"] if param.above is not None else []
    parts += [f"≥ {param.minimum:g}"] if param.minimum is not None else []
    parts += [f"≤ {param.maximum:g}"] if param.maximum is not None else []
    return ", ".join(parts) or kind.__name__


TABLES = {"settings": settings_tables, "plugins": plugin_tables}


def renewed(document: str) -> str:
    """The document with every marked part replaced by its table."""
    for name, render in TABLES.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, after = document.split(begin, maxsplit=1)[0], document.split(end)[1]
        document = f"{before}{begin}{render()}\n{end}{after}"
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(renewed(DOCUMENT.read_text()))
