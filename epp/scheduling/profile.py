"""A scheduling profile: filters, weighted scorers and one picker, run over the candidates of a cycle."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from epp.errors import NoEndpointsError, SaturatedError
from epp.scheduling.columns import CandidateSlots, add_weighted, clamped, contenders
from epp.scheduling.contracts import (
    NEAR_SHARE,
    Cycle,
    Filter,
    Narrowing,
    Picker,
    ProfileResult,
    ScoredColumn,
    Scorer,
)

__all__ = ["SchedulingProfile"]

# Candidate tuples whose snapshot columns are kept at a time: one a model that the pool serves.
_KEPT_TUPLES: Final = 64
# Of so many candidates it is worth while to know the best beforehand, if they are at most a part of them.
_MANY: Final = 128
_FEW_SHARE: Final = 8
# Stands where a scorer is asked for each request.
_GAP: Final = ScoredColumn("", "", 0.0, ())


class _SnapshotColumns(msgspec.Struct, frozen=True, eq=False):
    """What does not change while the pool's snapshot stands.

    `columns` has a gap where a scorer is asked for each request; `totals` is the weighted sum of the others,
    and `leaders` are the places close to the highest, where candidates are many and these are few.
    """

    version: int
    slots: CandidateSlots
    columns: list[ScoredColumn]
    totals: list[float]
    leaders: list[int] | None = None


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
        own, narrowed = self._filter(cycle) if self.filters else (cycle, ())
        columns, totals, places = self._score(own)
        picker = self.picker
        order = picker.order(own, totals, self.weight_sum, places)
        return ProfileResult(
            self.name, own.candidates, narrowed, columns, totals, order, picker.max_endpoints
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

    def _score(self, cycle: Cycle) -> tuple[tuple[ScoredColumn, ...], list[float], Sequence[int] | None]:
        """All columns, the totals, and where the best can be if that is known."""
        snapshot = self._snapshot(cycle)
        slots, columns = snapshot.slots, snapshot.columns.copy()
        count, asked = len(cycle.candidates), []
        for place, scorer, weight in self._asked:
            scores = clamped(scorer.score(cycle), count)
            columns[place] = ScoredColumn(scorer.name, scorer.type, weight, scores)
            asked.append((scores, weight))
        leaders = snapshot.leaders
        places = None if leaders is None else contenders(leaders, asked, slots)
        return tuple(columns), add_weighted(snapshot.totals, asked, slots), places

    def _snapshot(self, cycle: Cycle) -> _SnapshotColumns:
        """Columns of the "snapshot" scorers, kept while candidates and pool version are the same."""
        if not cycle.full:
            return self._snapshot_columns(cycle)
        # The entry holds the tuple, so its id stays taken.
        kept = self._kept.get(id(cycle.candidates))
        if kept is None or kept.version != cycle.pool_version:
            kept = self._keep(cycle)
        cycle.known_slots = kept.slots
        return kept

    def _keep(self, cycle: Cycle) -> _SnapshotColumns:
        if cycle.pool_version != self._kept_version or len(self._kept) >= _KEPT_TUPLES:
            self._kept.clear()
            self._kept_version = cycle.pool_version
        fresh = self._snapshot_columns(cycle)
        leaders = self._leaders(fresh.totals)
        kept = self._kept[id(cycle.candidates)] = msgspec.structs.replace(fresh, leaders=leaders)
        return kept

    def _leaders(self, totals: list[float]) -> list[int] | None:
        if len(totals) < _MANY:
            return None
        bar = max(totals) - NEAR_SHARE * self.weight_sum
        leaders = [place for place, total in enumerate(totals) if total >= bar]
        return leaders if len(leaders) * _FEW_SHARE <= len(totals) else None

    def _snapshot_columns(self, cycle: Cycle) -> _SnapshotColumns:
        slots = cycle.slots()
        columns = [
            _scored(scorer, weight, cycle) if scorer.volatility == "snapshot" else _GAP
            for scorer, weight in self.scorers
        ]
        weighted = [(column.scores, column.weight) for column in columns if column is not _GAP]
        totals = add_weighted([0.0] * len(slots), weighted, slots)
        return _SnapshotColumns(cycle.pool_version, slots, columns, totals)


def _scored(scorer: Scorer, weight: float, cycle: Cycle) -> ScoredColumn:
    scores = clamped(scorer.score(cycle), len(cycle.candidates))
    return ScoredColumn(scorer.name, scorer.type, weight, scores)
