"""The value of one setting: read from what a source gives, and shown to people."""

from collections.abc import Callable
from typing import Any, Final

from epp.config.document import Node, Scalar, SequenceNode, describe
from epp.config.endpoints import read_dns_names, read_endpoints
from epp.config.leaf import Leaf, LeafKind, Secret
from epp.config.model_rewrites import read_model_rewrites
from epp.config.objectives import read_objectives
from epp.config.path_rules import PathRule, parse_path_rules
from epp.config.reader import Reader, closest, listed
from epp.config.units import format_duration, format_size, parse_duration, parse_size
from epp.config.web_origin import parse_origin
from epp.security import parse_key, parse_network

__all__ = ["credential", "read_value", "show_default", "show_value"]


def read_value(reader: Reader, leaf: Leaf, node: Node, path: str) -> Any:
    """What `node` means for the setting, None after a fault.

    `path` is the name by which the source knows the setting: a key path, a flag or a variable.
    """
    if leaf.kind is LeafKind.PATH_RULES:
        return _path_rules(reader, node, path)
    if leaf.kind in _PARSERS:
        return _list(reader, node, path, _PARSERS[leaf.kind])
    value = _READERS[leaf.kind](reader, node, path)
    wrong = "" if value is None else _broken_rule(leaf, value)
    if wrong:
        remedy = _remedy(leaf, node)
        reader.problem(path, node, f"{wrong}, not {describe(node)}", remedy)
        return None
    return value


def _broken_rule(leaf: Leaf, value: Any) -> str:
    """The rule that the value breaks, "" when it breaks none."""
    if leaf.rules.choices:
        return "" if value in leaf.rules.choices else f"must be one of {listed(leaf.rules.choices)}"
    if leaf.kind not in (LeafKind.INTEGER, LeafKind.DURATION, LeafKind.SIZE):
        return ""
    minimum, maximum = leaf.rules.minimum or 0, leaf.rules.maximum
    if value < minimum:
        return f"must be at least {show_value(leaf, minimum)}"
    if maximum is not None and value > maximum:
        return f"must be at most {show_value(leaf, maximum)}"
    return ""


def _remedy(leaf: Leaf, node: Node) -> str:
    near = closest(describe(node), leaf.rules.choices)
    return f"did you mean {near!r}?" if near else f"leave it out for the default ({show_default(leaf)})"


def _text(reader: Reader, node: Node, path: str) -> str | None:
    text = reader.string(node, path)
    if text == "":
        reader.problem(path, node, "must not be empty", "leave it out for the default")
        return None
    return text


def _with_unit(parse: Callable[[str], Any]) -> Callable[[Reader, Node, str], Any]:
    def read(reader: Reader, node: Node, path: str) -> Any:
        try:
            return parse(node.text if isinstance(node, Scalar) else "")
        except ValueError as error:
            reader.problem(path, node, f"{error}, not {describe(node)}")
            return None

    return read


def _credential(reader: Reader, node: Node, path: str) -> Secret | None:
    text = reader.string(node, path)
    return None if text is None else credential(reader, text, path, node)


def credential(reader: Reader, text: str, path: str, node: Node | None = None) -> Secret | None:
    """A credential that can stand in a header; a fault is reported without the text."""
    if text and text.isascii() and text.isprintable() and " " not in text:
        return Secret(text)
    reader.problem(path, node, "must be printable ASCII without blanks, and not empty")
    return None


_READERS: Final[dict[LeafKind, Callable[[Reader, Node, str], Any]]] = {
    LeafKind.TEXT: _text,
    LeafKind.INTEGER: Reader.integer,
    LeafKind.SWITCH: Reader.boolean,
    LeafKind.DURATION: _with_unit(parse_duration),
    LeafKind.SIZE: _with_unit(parse_size),
    LeafKind.CREDENTIAL: _credential,
    LeafKind.ENDPOINTS: read_endpoints,
    LeafKind.DNS_NAMES: read_dns_names,
    LeafKind.OBJECTIVES: read_objectives,
    LeafKind.MODEL_REWRITES: read_model_rewrites,
}


# Of lists of texts.
_PARSERS: Final[dict[LeafKind, Callable[[str], Any]]] = {
    LeafKind.CLIENT_KEYS: parse_key,
    LeafKind.NETWORKS: parse_network,
    LeafKind.ORIGINS: parse_origin,
}


def _list(reader: Reader, node: Node, path: str, parse: Callable[[str], Any]) -> tuple[Any, ...]:
    """A list of values; one alone need not be a list."""
    items = reader.items(node, path) if isinstance(node, SequenceNode) else [(path, node)]
    values: list[Any] = []
    for item_path, item in items:
        text = reader.string(item, item_path)
        if text is None:
            continue
        try:
            values.append(parse(text))
        except ValueError as error:
            reader.problem(item_path, item, str(error))
    return tuple(values)


def _path_rules(reader: Reader, node: Node, path: str) -> tuple[PathRule, ...]:
    """A list of rules; one alone need not be a list."""
    items = reader.items(node, path) if isinstance(node, SequenceNode) else [(path, node)]
    rules: list[PathRule] = []
    for item_path, item in items:
        text = reader.string(item, item_path)
        try:
            rules += parse_path_rules(text) if text is not None else ()
        except ValueError as error:
            reader.problem(item_path, item, str(error))
    return tuple(rules)


def show_value(leaf: Leaf, value: Any) -> str:
    """A value as it would be written; credentials are stars."""
    if value is None or value == ():
        return leaf.rules.absent
    if leaf.kind is LeafKind.DURATION:
        return format_duration(value)
    if leaf.kind is LeafKind.SIZE:
        return format_size(value)
    if leaf.kind is LeafKind.SWITCH:
        return str(value).lower()
    if leaf.kind is LeafKind.OBJECTIVES:
        return " ".join(f"{objective.name}={objective.priority}" for objective in value)
    if leaf.kind in (LeafKind.ENDPOINTS, LeafKind.DNS_NAMES):
        return " ".join(",".join([item.url, *(f"{k}={v}" for k, v in item.labels.items())]) for item in value)
    if leaf.kind is LeafKind.PATH_RULES:
        return ", ".join(map(str, value))
    if leaf.kind.repeatable:
        return " ".join(map(str, value))
    return str(value)


def show_default(leaf: Leaf) -> str:
    """The default as it would be written, or what happens without a value."""
    return show_value(leaf, leaf.default)
