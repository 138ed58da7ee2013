"""decode-filter and prefill-filter."""

from collections.abc import Mapping
from typing import ClassVar, Final, Self

from epp.scheduling.contracts import BuildContext
from epp.scheduling.filters.labels import LabelFilter
from epp.scheduling.registry import NoParameters

__all__ = ["DecodeFilter", "PrefillFilter"]

ROLE_LABEL: Final = "llm-d.ai/role"
_ANY: Final = frozenset({"prefill-decode", "both", "encode-prefill-decode"})


class RoleFilter(LabelFilter):
    """Keeps the endpoints whose label `llm-d.ai/role` is one of `roles` (as the Go picker)."""

    roles: ClassVar[frozenset[str]]
    keeps_unlabelled: ClassVar[bool]

    @classmethod
    def build(cls, name: str, _parameters: NoParameters, _context: BuildContext) -> Self:
        """Factory for the registry."""
        return cls(name, cls._allows_labels)

    @classmethod
    def _allows_labels(cls, labels: Mapping[str, str]) -> bool:
        role = labels.get(ROLE_LABEL)
        return cls.keeps_unlabelled if role is None else role in cls.roles


class DecodeFilter(RoleFilter):
    """Keeps the endpoints that generate answers, those without a role among them."""

    type: ClassVar[str] = "decode-filter"
    roles: ClassVar[frozenset[str]] = _ANY | {"decode"}
    keeps_unlabelled: ClassVar[bool] = True


class PrefillFilter(RoleFilter):
    """Keeps the endpoints that compute prompts for others."""

    type: ClassVar[str] = "prefill-filter"
    roles: ClassVar[frozenset[str]] = _ANY | {"prefill", "encode-prefill"}
    keeps_unlabelled: ClassVar[bool] = False
