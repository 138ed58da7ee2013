"""YAML or JSON text as nodes that know their line: strict, and free of YAML 1.1's type guessing.

A scalar stays text with the knowledge whether it was quoted; what it means is decided by who reads it, so a
model named `on`, `0123` or `1e3` stays a name. Duplicate keys, tags of applications and self-references are
problems.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import yaml

from epp.errors import ConfigProblem

__all__ = ["Entry", "MappingNode", "Node", "Parsed", "Scalar", "SequenceNode", "describe", "is_null", "parse"]

_CORE_TAGS: Final = "tag:yaml.org,2002:"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as written. `quoted`: single, double or block style, a string whatever it looks like."""

    text: str
    line: int
    quoted: bool = False
    literal: bool = False  # block style `|`: line k of the text is line `line` + k of the file


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    items: "tuple[Node, ...]"
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping and what it holds; `line` is the key's."""

    key: str
    value: "Node"
    line: int


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping, in the order of the file, each key once."""

    entries: tuple[Entry, ...]
    line: int

    def get(self, key: str) -> "Node | None":
        """What `key` holds, None when it is absent."""
        return next((entry.value for entry in self.entries if entry.key == key), None)


Node: TypeAlias = Scalar | SequenceNode | MappingNode


@dataclass(frozen=True, slots=True)
class Parsed:
    """The documents of a text and what is wrong with them. With problems the documents may be incomplete."""

    documents: tuple[Node, ...]
    problems: tuple[ConfigProblem, ...]


def is_null(node: Node) -> bool:
    """Nothing stands there: `key:`, `key: null`, `key: ~`. The same as leaving the key out."""
    return isinstance(node, Scalar) and not node.quoted and node.text in _NULLS


def describe(node: Node) -> str:
    """A node's value for a message, short and on one line."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    text = node.text if len(node.text) <= _SHOWN_CHARACTERS else node.text[:_SHOWN_CHARACTERS] + "…"
    if node.quoted:
        return f"the string {text!r}"
    return text if text.isprintable() and text else repr(text)


def parse(text: str, first_line: int = 1) -> Parsed:
    """All documents of `text` that hold anything; lines are counted from `first_line`."""
    converter = _Converter(first_line)
    documents: list[Node] = []
    try:
        for root in yaml.compose_all(_plain_json(text), yaml.SafeLoader):
            node = converter.convert(root, "")
            if not is_null(node):
                documents.append(node)
    except yaml.YAMLError as error:
        converter.problems.append(_syntax_problem(error, first_line))
    except RecursionError:
        converter.problems.append(ConfigProblem("document", "is nested too deeply"))
    return Parsed(tuple(documents), tuple(converter.problems))


def _plain_json(text: str) -> str:
    """JSON may be indented with tabs, YAML may not; inside JSON strings no bare tab can stand."""
    return text.replace("\t", "  ") if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")) else text


def _syntax_problem(error: yaml.YAMLError, first_line: int) -> ConfigProblem:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    remedy = "indent with spaces, not tabs" if "'\\t'" in said else ""
    if mark is None:
        return ConfigProblem("document", f"is not valid YAML: {said}", remedy)
    message = f"is not valid YAML: {said} (column {mark.column + 1})"
    return ConfigProblem("document", message, remedy, line=mark.line + first_line)


class _Converter:
    """Copies PyYAML's graph into nodes; a node that several aliases share is copied once."""

    def __init__(self, first_line: int) -> None:
        self.problems: list[ConfigProblem] = []
        self._first_line = first_line
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()
        self._alive: list[yaml.Node] = []  # keeps ids unique while they are keys

    def convert(self, node: yaml.Node, path: str) -> Node:
        """The node below `path`."""
        identity = id(node)
        if identity in self._done:
            return self._done[identity]
        if identity in self._open:
            self._problem(path, node, "refers to itself")
            return Scalar("", self._line(node))
        self._alive.append(node)
        self._open.add(identity)
        if not node.tag.startswith(_CORE_TAGS):
            self._problem(path, node, f"has the tag {node.tag}", "remove the tag")
        self._done[identity] = converted = self._copy(node, path)
        self._open.remove(identity)
        return converted

    def _copy(self, node: yaml.Node, path: str) -> Node:
        if isinstance(node, yaml.MappingNode):
            return MappingNode(tuple(self._entries(node, path)), self._line(node))
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.convert(item, f"{path}[{i}]") for i, item in enumerate(node.value))
            return SequenceNode(items, self._line(node))
        scalar = cast(yaml.ScalarNode, node)
        text = self._text(scalar, path)
        return Scalar(text, self._line(node), quoted=scalar.style is not None, literal=scalar.style == "|")

    def _entries(self, mapping: yaml.MappingNode, path: str) -> Iterator[Entry]:
        lines: dict[str, int] = {}
        for key_node, value_node in mapping.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(path, key_node, "has a key that is not a string")
                continue
            key, line = self._text(key_node, path), self._line(key_node)
            key_path = f"{path}.{key}" if path else key
            if key in lines:
                message = f"is given twice, on line {lines[key]} and on line {line}"
                self._problem(key_path, key_node, message, "keep one of them")
                continue
            lines[key] = line
            yield Entry(key, self.convert(value_node, key_path), line)

    def _text(self, node: yaml.ScalarNode, path: str) -> str:
        """The scalar's text; JSON writes characters beyond the BMP as two escapes, which are joined here."""
        text: str = node.value
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._problem(path, node, "holds half of a surrogate pair, which is no character")
            return ""

    def _line(self, node: yaml.Node) -> int:
        line: int = node.start_mark.line
        return line + self._first_line

    def _problem(self, path: str, node: yaml.Node, message: str, remedy: str = "") -> None:
        self.problems.append(ConfigProblem(path or "document", message, remedy, line=self._line(node)))
