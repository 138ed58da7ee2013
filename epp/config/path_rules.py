"""Which paths are relayed: rules of the settings, in their order."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["PathRule", "canonical_path", "is_open", "parse_path_rules"]

_FORM: Final = "write allow or deny, a blank and a pattern that begins with /, such as deny /v1/audio/*"


@dataclass(frozen=True, slots=True)
class PathRule:
    """Opens or closes the paths that match `pattern`; its `*` stands for any characters, slashes included."""

    allow: bool
    pattern: str

    def __str__(self) -> str:
        """As it is written."""
        return f"{'allow' if self.allow else 'deny'} {self.pattern}"

    def matches(self, path: str) -> bool:
        """Whether the whole path fits; the case of letters counts."""
        first, *others = self.pattern.split("*")
        if not others:
            return path == first
        *middle, last = others
        if not path.startswith(first) or not path.endswith(last):
            return False
        at = len(first)
        for part in middle:
            found = path.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return at <= len(path) - len(last)


def parse_path_rules(text: str) -> tuple[PathRule, ...]:
    """One rule, or several with commas between them.

    Raises:
        ValueError: one is not of that form; the message says what is.
    """
    return tuple(_parse(part) for part in text.split(","))


def _parse(text: str) -> PathRule:
    verb, _, pattern = text.strip().partition(" ")
    pattern = pattern.strip()
    if verb not in ("allow", "deny") or not pattern.startswith(("/", "*")) or " " in pattern:
        raise ValueError(f"{text.strip()!r} is no rule; {_FORM}")
    return PathRule(verb == "allow", pattern)


def is_open(rules: Iterable[PathRule], path: str) -> bool:
    """The first rule that matches decides; a path that none matches is open.

    A path that another server may understand as another one (`//`, `/./`, `/../`, a slash at its end) is open
    only if it is so in both forms.
    """
    rules = tuple(rules)
    return _is_open(rules, path) and _is_open(rules, canonical_path(path))


def _is_open(rules: tuple[PathRule, ...], path: str) -> bool:
    return next((rule.allow for rule in rules if rule.matches(path)), True)


def canonical_path(path: str) -> str:
    """The path without empty and dot segments and without a slash at its end (RFC 3986, 5.2.4)."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    return "/" + "/".join(segments)
