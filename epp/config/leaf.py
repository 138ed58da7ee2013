"""One setting: its name in the file, as a flag and as a variable, its kind, its bounds and its meaning.

All names follow from the attribute: `upstream.first_byte_timeout_s` is `upstream.firstByteTimeout`,
`--upstream-first-byte-timeout` and `EPP_UPSTREAM_FIRST_BYTE_TIMEOUT`. The kind follows from the type and the
unit: `…_s` is a duration, `…_bytes` a size. A tuple is a list: its flag may be repeated, and its variable
holds values separated by blanks.
"""

import dataclasses
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from epp.config.model_rewrites import ModelRewrite
from epp.config.path_rules import PathRule
from epp.config.web_origin import WebOrigin
from epp.endpoints.dns_name import DnsName
from epp.endpoints.types import EndpointSpec
from epp.flow.admission import Objective
from epp.security import ClientKey, Network

__all__ = [
    "ENVIRONMENT_PREFIX", "Leaf", "LeafKind", "Rules", "Secret", "leaf_of", "rules", "spelled",
]  # fmt: skip

ENVIRONMENT_PREFIX: Final = "EPP_"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A credential; printing it prints stars. Only what must send or compare it reads `value`."""

    value: str

    def __repr__(self) -> str:
        """Stars, in tracebacks and logs too."""
        return "***"


class LeafKind(enum.StrEnum):
    """How a setting's text is read."""

    TEXT = "text"
    INTEGER = "whole number"
    SWITCH = "true or false"
    DURATION = "duration"
    SIZE = "size"
    CREDENTIAL = "text, never shown"
    ENDPOINTS = "endpoint, repeatable"
    DNS_NAMES = "DNS name, repeatable"
    OBJECTIVES = "name=priority, repeatable"
    MODEL_REWRITES = "model=targets, repeatable"
    CLIENT_KEYS = "text, never shown, repeatable"
    NETWORKS = "network, repeatable"
    ORIGINS = "origin, repeatable"
    PATH_RULES = "rule, repeatable"

    @property
    def repeatable(self) -> bool:
        """A list of values: flags that may be given more than once, lists in the file."""
        return self in _REPEATABLE

    @property
    def separated_by_blanks(self) -> bool:
        """A list whose values have no blank in them: in a variable, blanks stand between them."""
        return self.repeatable and self is not LeafKind.PATH_RULES


_REPEATABLE: Final = frozenset(
    {
        LeafKind.ENDPOINTS,
        LeafKind.DNS_NAMES,
        LeafKind.OBJECTIVES,
        LeafKind.MODEL_REWRITES,
        LeafKind.CLIENT_KEYS,
        LeafKind.NETWORKS,
        LeafKind.ORIGINS,
        LeafKind.PATH_RULES,
    }
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is said of a setting beside its name. `absent`: what happens when its default is no value."""

    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    absent: str = ""
    alias: str = ""


def rules(
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    absent: str = "",
    alias: str = "",
) -> Mapping[str, Rules]:
    """Metadata of a dataclass field. Bounds are inclusive; numbers are never negative."""
    return {"rules": Rules(doc, minimum, maximum, choices, absent, alias)}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting. `branch` is the attribute of its section, dotted where nested, "" at the top level."""

    branch: str
    attribute: str
    kind: LeafKind
    default: Any
    rules: Rules

    @property
    def path(self) -> str:
        """The key path in the file."""
        key = spelled(self.attribute.removesuffix("_s"))
        return f"{spelled(self.branch)}.{key}" if self.branch else key

    @property
    def flag(self) -> str:
        """The flag's name."""
        return "--" + "-".join(self._words())

    @property
    def variable(self) -> str:
        """The environment variable's name."""
        return ENVIRONMENT_PREFIX + "_".join(self._words()).upper()

    def _words(self) -> list[str]:
        return f"{self.branch}_{self.attribute.removesuffix('_s')}".strip("_").replace(".", "_").split("_")


def spelled(attribute: str) -> str:
    """An attribute's name as a key of the file."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), attribute)


def leaf_of(branch: str, field: dataclasses.Field[Any]) -> Leaf:
    """The setting that a field with `rules` is."""
    return Leaf(branch, field.name, _kind(field.name, field.type), field.default, field.metadata["rules"])


def _kind(attribute: str, annotation: Any) -> LeafKind:
    types = (annotation,) if annotation is Network else get_args(annotation) or (annotation,)
    if attribute.endswith("_s"):
        return LeafKind.DURATION
    if attribute.endswith("_bytes"):
        return LeafKind.SIZE
    by_type = {
        bool: LeafKind.SWITCH,
        int: LeafKind.INTEGER,
        str: LeafKind.TEXT,
        Secret: LeafKind.CREDENTIAL,
        EndpointSpec: LeafKind.ENDPOINTS,
        PathRule: LeafKind.PATH_RULES,
        DnsName: LeafKind.DNS_NAMES,
        Objective: LeafKind.OBJECTIVES,
        ModelRewrite: LeafKind.MODEL_REWRITES,
        ClientKey: LeafKind.CLIENT_KEYS,
        Network: LeafKind.NETWORKS,
        WebOrigin: LeafKind.ORIGINS,
    }
    return by_type[types[0]]
