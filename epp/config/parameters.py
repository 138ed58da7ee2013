"""Plugin parameters: from a mapping to an instance of the type's parameters dataclass."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from epp.config.compatibility import DEFAULT_PARAMETERS, only_defaults
from epp.config.document import MappingNode, Node, Scalar, describe
from epp.config.reader import Reader, closest, listed
from epp.config.units import parse_duration
from epp.scheduling.registry import CheckedParameters, Param, params_of

__all__ = ["read_parameters"]

_READERS: Final = {bool: Reader.boolean, int: Reader.integer, float: Reader.number, str: Reader.string}


def read_parameters(
    reader: Reader, node: Node | None, path: str, plugin_type: str, parameters: type
) -> tuple[Any, frozenset[str]]:
    """The typed parameters and the keys that the file gives; a faulty value is a problem."""
    before = len(reader.problems)
    known = params_of(parameters)
    fields = reader.fields(*_split_defaults(reader, node, path, plugin_type, known), tuple(known))
    values: dict[str, Any] = {}
    for key, value_node in fields.items():
        attribute, param = known[key]
        value = _read(reader, value_node, f"{path}.{key}", param)
        if value is not None:
            values[attribute] = value
    for key in known.keys() - fields.keys():
        _leave_out(reader, node, f"{path}.{key}", known[key][1])
    made = parameters(**values)
    if len(reader.problems) == before and isinstance(made, CheckedParameters):
        for fault in made.faults():
            reader.problem(f"{path}.{fault.key}", fields.get(fault.key, node), fault.message, fault.remedy)
    return made, frozenset(fields)


def _leave_out(reader: Reader, node: Node | None, path: str, param: Param) -> None:
    if param.required:
        reader.problem(path, node, "is missing", f"add it: {param.doc[0].lower()}{param.doc[1:]}")
    else:
        reader.provenance[path] = "default"


def _split_defaults(
    reader: Reader, node: Node | None, path: str, plugin_type: str, known: Mapping[str, Any]
) -> tuple[Node | None, str]:
    """Take out the keys that are accepted with the Go picker's default only."""
    defaults = DEFAULT_PARAMETERS.get(plugin_type, {})
    if not defaults or not isinstance(node, MappingNode):
        return node, path
    extra = tuple(e for e in node.entries if e.key in defaults and e.key not in known)
    only_defaults(reader, MappingNode(extra, node.line), path, defaults)
    return MappingNode(tuple(e for e in node.entries if e not in extra), node.line), path


def _read(reader: Reader, node: Node, path: str, param: Param) -> Any:
    """One value within its bounds, None when it is not."""
    value = (
        _read_duration(reader, node, path) if param.duration else _read_typed(reader, node, path, param.type)
    )
    if value is None:
        return None
    if param.deprecated:
        reader.warn(path, f"is deprecated: {param.deprecated}")
    wrong = _out_of_bounds(value, param)
    if wrong:
        reader.problem(path, node, f"{wrong}, not {describe(node)}", _default_remedy(value, param))
        return None
    return value


def _read_typed(reader: Reader, node: Node, path: str, kind: Any) -> Any:
    """A value of a parameter's type (see `epp.scheduling.registry`), None after a fault."""
    if get_origin(kind) is tuple:
        return _read_list(reader, node, path, get_args(kind)[0])
    # The type itself, or of `X | None` the X.
    kinds = [k for k in (get_args(kind) if isinstance(kind, UnionType) else (kind,)) if k is not NoneType]
    if get_origin(kinds[0]) is Mapping:
        return _read_texts(reader, node, path)
    if kinds[0] in _READERS:
        return _READERS[kinds[0]](reader, node, path)
    reader.found(path, node)
    return read_parameters(reader, node, path, "", kinds[0])[0]


def _read_list(reader: Reader, node: Node, path: str, kind: Any) -> tuple[Any, ...]:
    reader.found(path, node)
    read = [_read_typed(reader, item, item_path, kind) for item_path, item in reader.items(node, path)]
    return tuple(item for item in read if item is not None)


def _read_texts(reader: Reader, node: Node, path: str) -> dict[str, str]:
    reader.found(path, node)
    entries = reader.entries(node, path)
    return {e.key: reader.string(e.value, f"{path}.{e.key}") or "" for e in entries}


def _read_duration(reader: Reader, node: Node, path: str) -> float | None:
    try:
        seconds = parse_duration(node.text if isinstance(node, Scalar) else "")
    except ValueError as error:
        reader.problem(path, node, f"{error}, not {describe(node)}")
        return None
    reader.found(path, node)
    return seconds


def _out_of_bounds(value: Any, param: Param) -> str:
    """The rule that `value` breaks, "" when it breaks none."""
    if param.choices:
        return "" if value in param.choices else f"must be one of {listed(param.choices)}"
    if param.above is not None and value <= param.above:
        return f"must be greater than {param.above:g}"
    if param.minimum is not None and value < param.minimum:
        return f"must be at least {param.minimum:g}"
    if param.maximum is not None and value > param.maximum:
        return f"must be at most {param.maximum:g}"
    return ""


def _default_remedy(value: Any, param: Param) -> str:
    near = closest(value, param.choices) if isinstance(value, str) else None
    if near:
        return f"did you mean {near!r}?"
    return "leave it out" if param.default is None else f"leave it out for the default ({param.default})"
