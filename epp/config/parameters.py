"""Plugin parameters: from a mapping to an instance of the type's parameters dataclass."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from epp.config.compatibility import DEFAULT_PARAMETERS, only_defaults
from epp.config.document import MappingNode, Node, describe
from epp.config.reader import Reader, closest, listed
from epp.scheduling.registry import Param, params_of

__all__ = ["read_parameters"]

_READERS: Final = {bool: Reader.boolean, int: Reader.integer, float: Reader.number, str: Reader.string}


def read_parameters(
    reader: Reader, node: Node | None, path: str, plugin_type: str, parameters: type
) -> tuple[Any, frozenset[str]]:
    """The typed parameters and the keys that the file gives; a faulty value is a problem."""
    known = params_of(parameters)
    fields = reader.fields(*_split_defaults(reader, node, path, plugin_type, known), tuple(known))
    values: dict[str, Any] = {}
    for key, value_node in fields.items():
        attribute, param = known[key]
        value = _read(reader, value_node, f"{path}.{key}", param)
        if value is not None:
            values[attribute] = value
    for key in known.keys() - fields.keys():
        reader.provenance[f"{path}.{key}"] = "default"
    return parameters(**values), frozenset(fields)


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
    kind = next(k for k in (get_args(param.type) or (param.type,)) if k in _READERS)
    value = _READERS[kind](reader, node, path)
    if value is None:
        return None
    if param.deprecated:
        reader.warn(path, f"is deprecated: {param.deprecated}")
    wrong = _out_of_bounds(value, param)
    if wrong:
        reader.problem(path, node, f"{wrong}, not {describe(node)}", _default_remedy(value, param))
        return None
    return value


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
