"""by-label, which label-selector-filter replaces."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from epp.scheduling.contracts import BuildContext
from epp.scheduling.filters.labels import LabelFilter
from epp.scheduling.registry import Fault, param

__all__ = ["ByLabelFilter", "ByLabelParameters"]


@dataclass(frozen=True, slots=True)
class ByLabelParameters:
    """Parameters of by-label."""

    label: str = param("", key="label", doc="Name of the label.", required=True)
    valid_values: tuple[str, ...] = param((), key="validValues", doc="Values that are kept.")
    allows_no_label: bool = param(False, key="allowsNoLabel", doc="Keep endpoints without the label, too.")

    def faults(self) -> Iterator[Fault]:
        """Something must be kept."""
        if not self.valid_values and not self.allows_no_label:
            yield Fault("validValues", "must not be empty unless allowsNoLabel is true", "list the values")

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Whether an endpoint with `labels` is kept."""
        value = labels.get(self.label)
        return self.allows_no_label if value is None else value in self.valid_values


class ByLabelFilter(LabelFilter):
    """Keeps the endpoints whose label has one of some values."""

    type: ClassVar[str] = "by-label"

    @classmethod
    def build(cls, name: str, parameters: ByLabelParameters, _context: BuildContext) -> Self:
        """Factory for the registry."""
        return cls(name, parameters.allows)
