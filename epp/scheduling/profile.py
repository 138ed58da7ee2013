"""A scheduling profile: filters, weighted scorers and one picker, run over the candidates of a cycle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from epp.errors import NoEndpointsError, SaturatedError
from epp.scheduling.columns import CandidateSlots, add_weighted, clamped
from epp.scheduling.contracts import Cycle, Filter, Narrowing, Picker, ProfileResult, ScoredColumn, Scorer

__all__ = ["SchedulingProfile"]

# Candidate tuples whose snapshot columns are kept at a time: one a model that the pool serves.
_KEPT_TUPLES: Final = 64
# Stands where a scorer is asked for each request.
_GAP: Final = ScoredColumn("", "", 0.0, ())


@dataclass(frozen=True, slots=True, eq=False)
class _SnapshotColumns:
    """What does not change while the pool's snapshot stands.

    `columns` has a gap where a scorer is asked for each request; `totals` is the weighted sum of the others.
    """

    slots: CandidateSlots
    columns: list[ScoredColumn]
    totals: list[float]


class SchedulingProfile:
    """Runs filters in order, adds up weight times clamped score, and lets the picker order the rest.

    Scorers whose volatility is "snapshot" are asked once for the same candidates of the same pool version,
    if the cycle's candidates are complete and only filters that are "snapshot", too, dropped some.
    """

    def __init__(
        self,
        name: str,
        filters: Sequence[Filter],
        scorers: Sequence[tuple[Scorer, float]],
        picker: Picker,
    ) -> None:
        """`scorers` are (scorer, weight) pairs; weights are finite and not negative, and not normalised."""
        self.name = name
        self.filters = tuple(filters)
        self.scorers = tuple(scorers)
        self.picker = picker
        self._asked = tuple(
            (place, scorer, weight)
            for place, (scorer, weight) in enumerate(scorers)
            if scorer.volatility != "snapshot"
        )
        self.weight_sum = sum(weight for _, weight in scorers)
        self._kept: dict[int, _SnapshotColumns] = {}
        self._kept_version: int | None = None

    def run(self, cycle: Cycle) -> ProfileResult:
        """Decide. The cycle itself is left as it came.

        Raises:
            NoEndpointsError: there was no candidate to begin with.
            SaturatedError: the filters dropped every candidate.
        """
        if not cycle.candidates:
            raise NoEndpointsError("no endpoint is ready")
        own, narrowed = self._filter(cycle)
        columns, totals = self._score(own)
        return ProfileResult(
            profile=self.name,
            candidates=own.candidates,
            narrowed=narrowed,
            columns=columns,
            totals=totals,
            order=self.picker.order(own, totals, self.weight_sum),
            max_endpoints=self.picker.max_endpoints,
        )

    def _filter(self, cycle: Cycle) -> tuple[Cycle, tuple[Narrowing, ...]]:
        """The cycle with the candidates that pass, and what each filter that dropped some has done."""
        own = cycle
        narrowed: list[Narrowing] = []
        for plugin in self.filters:
            passed = plugin.filter(own)
            if len(passed) == len(own.candidates):
                continue
            narrowed.append(Narrowing(plugin.name, own.candidates, passed))
            if not passed:
                raise SaturatedError("no endpoint can take the request: every candidate was filtered out")
            own = replace(own, candidates=passed, full=own.full and plugin.volatility == "snapshot")
        return own, tuple(narrowed)

    def _score(self, cycle: Cycle) -> tuple[tuple[ScoredColumn, ...], list[float]]:
        snapshot = self._snapshot(cycle)
        columns = snapshot.columns.copy()
        asked = []
        for place, scorer, weight in self._asked:
            columns[place] = column = _scored(scorer, weight, cycle)
            asked.append((column.scores, weight))
        return tuple(columns), add_weighted(snapshot.totals, asked, snapshot.slots)

    def _snapshot(self, cycle: Cycle) -> _SnapshotColumns:
        """Columns of the "snapshot" scorers, kept while candidates and pool version are the same."""
        if not cycle.full:
            return self._snapshot_columns(cycle)
        if cycle.pool_version != self._kept_version or len(self._kept) >= _KEPT_TUPLES:
            self._kept.clear()
            self._kept_version = cycle.pool_version
        # The entry holds the tuple, so its id stays taken.
        key = id(cycle.candidates)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._snapshot_columns(cycle)
        cycle.known_slots = kept.slots
        return kept

    def _snapshot_columns(self, cycle: Cycle) -> _SnapshotColumns:
        slots = cycle.slots()
        columns = [
            _scored(scorer, weight, cycle) if scorer.volatility == "snapshot" else _GAP
            for scorer, weight in self.scorers
        ]
        weighted = [(column.scores, column.weight) for column in columns if column is not _GAP]
        return _SnapshotColumns(slots, columns, add_weighted([0.0] * len(slots), weighted, slots))


def _scored(scorer: Scorer, weight: float, cycle: Cycle) -> ScoredColumn:
    scores = clamped(scorer.score(cycle), len(cycle.candidates))
    return ScoredColumn(scorer.name, scorer.type, weight, scores)
