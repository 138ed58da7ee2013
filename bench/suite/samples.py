"""Figures by workload, stack and metric, a value a run. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .stats import median, paired_differences

__all__ = ["Samples"]

Table = dict[str, dict[str, dict[str, list[float]]]]


@dataclass(slots=True)
class Samples:
    """`table[workload][stack][metric]` is a list with a value a run, in the order of the runs."""

    table: Table = field(default_factory=dict)

    def add(self, workload: str, stack: str, metrics: Mapping[str, float]) -> None:
        """Append one run's figures."""
        found = self.table.setdefault(workload, {}).setdefault(stack, {})
        for metric, value in metrics.items():
            found.setdefault(metric, []).append(value)

    def values(self, workload: str, stack: str, metric: str) -> list[float]:
        return self.table.get(workload, {}).get(stack, {}).get(metric, [])

    def median(self, workload: str, stack: str, metric: str) -> float | None:
        return median(self.values(workload, stack, metric))

    def total(self, workload: str, stack: str, metric: str) -> float | None:
        values = self.values(workload, stack, metric)
        return sum(values) if values else None

    def above(self, workload: str, stack: str, metric: str, baseline: str) -> float | None:
        """The median of how much a stack is above another, run by run."""
        pairs = paired_differences(
            self.values(workload, stack, metric), self.values(workload, baseline, metric)
        )
        return median(pairs)

    def stacks(self, workload: str) -> list[str]:
        return list(self.table.get(workload, {}))

    def replaced_by(self, newer: "Samples") -> "Samples":
        """These, but for the workloads that were measured anew."""
        return Samples({**self.table, **newer.table})
