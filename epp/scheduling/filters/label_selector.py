"""label-selector-filter, and the older name by-label-selector."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from epp.scheduling.contracts import BuildContext
from epp.scheduling.filters.labels import LabelFilter
from epp.scheduling.registry import Fault, param

__all__ = ["ByLabelSelectorFilter", "LabelRequirement", "LabelSelectorFilter", "LabelSelectorParameters"]

_NEED_VALUES: Final = frozenset({"In", "NotIn"})


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One element of matchExpressions."""

    key: str = param("", key="key", doc="Name of the label.", required=True)
    operator: str = param(
        "",
        key="operator",
        doc="How label and values relate.",
        choices=("In", "NotIn", "Exists", "DoesNotExist"),
        required=True,
    )
    values: tuple[str, ...] = param((), key="values", doc="What In and NotIn compare with.")

    def faults(self) -> Iterator[Fault]:
        """In and NotIn need values, the others take none."""
        needed = self.operator in _NEED_VALUES
        if needed and not self.values:
            yield Fault("values", f"must not be empty with operator {self.operator}", "list the values")
        if not needed and self.values:
            yield Fault("values", f"must be empty with operator {self.operator}", "remove them")

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Whether an endpoint with `labels` meets the requirement; NotIn is met where the label is absent."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator == "In")


@dataclass(frozen=True, slots=True)
class LabelSelectorParameters:
    """Parameters of label-selector-filter: a Kubernetes label selector."""

    match_labels: Mapping[str, str] | None = param(
        None, key="matchLabels", doc="Labels that an endpoint must have, with these values."
    )
    match_expressions: tuple[LabelRequirement, ...] = param(
        (), key="matchExpressions", doc="Further requirements, all of which must be met."
    )

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Whether an endpoint with `labels` is selected."""
        wanted = self.match_labels or {}
        return all(labels.get(key) == value for key, value in wanted.items()) and all(
            requirement.allows(labels) for requirement in self.match_expressions
        )


class LabelSelectorFilter(LabelFilter):
    """Keeps the endpoints that a Kubernetes label selector selects.

    An empty selector selects all. Labels are those of discovery (`--endpoint URL,label=value`).
    Source: `metav1.LabelSelector` of the Kubernetes API.
    """

    type: ClassVar[str] = "label-selector-filter"

    @classmethod
    def build(cls, name: str, parameters: LabelSelectorParameters, _context: BuildContext) -> Self:
        """Factory for the registry."""
        return cls(name, parameters.allows)


class ByLabelSelectorFilter(LabelSelectorFilter):
    """The same under its older name."""

    type: ClassVar[str] = "by-label-selector"
