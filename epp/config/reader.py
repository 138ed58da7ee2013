"""Reads nodes as typed values; what does not fit becomes a problem with path, value, remedy and line."""

import difflib
import math
import re
from collections.abc import Collection, Iterable
from typing import Final, TypeVar

from epp.config.document import Entry, MappingNode, Node, Scalar, SequenceNode, describe, is_null
from epp.errors import ConfigProblem

__all__ = ["Reader", "closest", "listed", "unknown_word_remedy"]

_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_YAML_1_1_BOOLEANS: Final = frozenset({"yes", "no", "on", "off", "y", "n"})
_MAX_DIGITS: Final = 18  # below 2**63

T = TypeVar("T")


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely means, None when none is near."""
    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[near[0]] if near else None


def listed(words: Iterable[str]) -> str:
    """Words for a message."""
    return ", ".join(words)


def unknown_word_remedy(word: str, known: Collection[str], what: str) -> str:
    """A guess first, then everything that is allowed."""
    near = closest(word, known)
    guess = f"did you mean {near!r}? " if near else ""
    return f"{guess}{what}: {listed(known) if known else 'none'}"


class Reader:
    """Collects problems, remarks and where each value came from, while the loader walks the document."""

    def __init__(self) -> None:
        self.problems: list[ConfigProblem] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.provenance: dict[str, str] = {}

    def problem(self, path: str, node: Node | None, message: str, remedy: str = "") -> None:
        """Note a fault; the line is the node's."""
        line = node.line if node is not None else None
        self.problems.append(ConfigProblem(path, message, remedy, line=line))

    def warn(self, path: str, message: str) -> None:
        """Note a probable mistake that does not stop the load."""
        self.warnings.append(f"{path}: {message}")

    def note(self, path: str, message: str) -> None:
        """Note what something in the file means here."""
        self.notes.append(f"{path}: {message}")

    def found(self, path: str, node: Node) -> None:
        """Note that the value of `path` stands in the file."""
        self.provenance[path] = f"line {node.line}"

    def fields(self, node: Node | None, path: str, known: Collection[str]) -> dict[str, Node]:
        """The keys of a mapping that hold something; keys that are not `known` are problems."""
        fields: dict[str, Node] = {}
        for entry in self.entries(node, path):
            if entry.key not in known:
                self.unknown_key(entry, path, known)
            elif not is_null(entry.value):
                fields[entry.key] = entry.value
        return fields

    def entries(self, node: Node | None, path: str) -> tuple[Entry, ...]:
        """All keys of a mapping; an absent one has none."""
        if node is None or is_null(node):
            return ()
        if not isinstance(node, MappingNode):
            # A single value may be a key that somebody wrote where keys are listed: it is not shown.
            kind = "a single value" if isinstance(node, Scalar) else describe(node)
            self.problem(path or "document", node, f"must be a mapping, not {kind}")
            return ()
        return node.entries

    def unknown_key(self, entry: Entry, path: str, known: Collection[str]) -> None:
        """Report a key that nothing reads."""
        key_path = f"{path}.{entry.key}" if path else entry.key
        remedy = unknown_word_remedy(entry.key, known, "known keys here")
        line = Scalar(entry.key, entry.line)
        self.problem(key_path, line, f"unknown key {entry.key!r}", remedy)

    def items(self, node: Node | None, path: str) -> list[tuple[str, Node]]:
        """The elements of a list with their paths; an absent list is empty."""
        if node is None:
            return []
        if not isinstance(node, SequenceNode):
            self.problem(path, node, f"must be a list, not {describe(node)}")
            return []
        return [(f"{path}[{index}]", item) for index, item in enumerate(node.items)]

    def string(self, node: Node | None, path: str) -> str | None:
        """A string, as written: `on`, `0123` and `1e3` are names here. None when absent or faulty."""
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.problem(path, node, f"must be a string, not {describe(node)}")
            return None
        self.found(path, node)
        return node.text

    def boolean(self, node: Node, path: str) -> bool | None:
        """`true` or `false`, bare."""
        if isinstance(node, Scalar) and not node.quoted and node.text in _BOOLEANS:
            self.found(path, node)
            return _BOOLEANS[node.text]
        self.problem(path, node, f"must be true or false, not {describe(node)}", self._boolean_remedy(node))
        return None

    @staticmethod
    def _boolean_remedy(node: Node) -> str:
        text = node.text.lower() if isinstance(node, Scalar) else ""
        if text in ("true", "false"):
            return f"write {text} without quotes"
        return "write true or false" if text in _YAML_1_1_BOOLEANS else ""

    def integer(self, node: Node, path: str) -> int | None:
        """A whole decimal number, bare."""
        if not isinstance(node, Scalar):
            self.problem(path, node, f"must be a whole number, not {describe(node)}")
            return None
        whole = _INTEGER.fullmatch(node.text) and not node.quoted
        if whole and len(node.text) > _MAX_DIGITS:
            self.problem(path, node, f"must have at most {_MAX_DIGITS} digits, not {describe(node)}")
            return None
        if not whole:
            self.problem(path, node, f"must be a whole number, not {describe(node)}", _whole_remedy(node))
            return None
        self.found(path, node)
        return int(node.text)

    def number(self, node: Node, path: str) -> float | None:
        """A finite decimal number, bare, with or without a fraction."""
        value = math.nan
        if isinstance(node, Scalar) and _NUMBER.fullmatch(node.text):
            value = float(node.text)
        if not math.isfinite(value) or (isinstance(node, Scalar) and node.quoted):
            self.problem(path, node, f"must be a finite number, not {describe(node)}", _bare_remedy(node))
            return None
        self.found(path, node)
        return value


def _bare_remedy(node: Node) -> str:
    if isinstance(node, Scalar) and node.quoted and _NUMBER.fullmatch(node.text):
        return f"write {node.text} without quotes"
    return ""


def _whole_remedy(node: Scalar) -> str:
    """How to write the number that was probably meant."""
    text = node.text
    if node.quoted and _INTEGER.fullmatch(text):
        return f"write {text} without quotes"
    if text.lstrip("+-").isdigit():
        stripped = text.lstrip("0") or "0"
        return (
            f"write {stripped} (a leading zero means octal to some readers)"
            if len(text) <= _MAX_DIGITS
            else ""
        )
    if _NUMBER.fullmatch(text) and float(text).is_integer() and abs(float(text)) < 10**_MAX_DIGITS:
        return f"write {float(text):.0f}"
    return ""
