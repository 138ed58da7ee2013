"""What changes while the router runs: endpoints that are found, configurations, and the shadow's verdicts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from epp.director.shadow import ShadowTally
from epp.observability import families_own as own
from epp.observability.exposition import Sample
from epp.observability.instruments import Family

__all__ = ["Changes", "ReloadState", "ShadowState", "SourceState", "StateKept", "change_families"]


@dataclass(frozen=True, slots=True)
class SourceState:
    """A discovery source: endpoints it knows (None: not yet), looks that failed, how the last one went."""

    name: str
    endpoints: int | None
    failures: int
    ok: bool


@dataclass(frozen=True, slots=True)
class ReloadState:
    """Reloads by result, and whether every configuration file is in effect."""

    results: Mapping[str, int] = field(default_factory=dict)
    ok: bool = True


@dataclass(frozen=True, slots=True)
class ShadowState:
    """The shadow configuration that is at work and what has come of it."""

    config_hash: str
    tally: ShadowTally


@dataclass(frozen=True, slots=True)
class StateKept:
    """What was taken over from the process before, and what is kept for the next one.

    Attributes:
        entries: of the index that were taken over; `age_s` how old they were, None if there were none.
        loads, saves: by what came of them.
        saved_at: of the last save, by the wall clock; `size` its bytes.
    """

    entries: int
    age_s: float | None
    loads: Mapping[str, int]
    saves: Mapping[str, int]
    saved_at: float | None
    size: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Where the values come from. `config_hash` is that of the configuration in effect."""

    config_hash: Callable[[], str] = str
    sources: Callable[[], Sequence[SourceState]] = tuple
    reload: Callable[[], ReloadState] = ReloadState
    shadow: Callable[[], ShadowState | None] = lambda: None
    state: Callable[[], StateKept | None] = lambda: None


def change_families(changes: Changes) -> Iterator[tuple[Family, list[Sample]]]:
    """All families with the values of this moment."""
    sources = changes.sources()
    known = [((s.name,), s.endpoints) for s in sources if s.endpoints is not None]
    yield own.SOURCE_ENDPOINTS, list(known)
    yield own.SOURCE_OK, [((s.name,), int(s.ok)) for s in sources]
    yield own.SOURCE_FAILURES, [((s.name,), s.failures) for s in sources]
    reload = changes.reload()
    yield own.RELOADS, [((result,), count) for result, count in reload.results.items()]
    yield own.RELOAD_OK, [((), int(reload.ok))]
    yield own.CONFIG, [((changes.config_hash(),), 1)]
    yield from _shadow_families(changes.shadow())
    yield from _state_families(changes.state())


def _shadow_families(shadow: ShadowState | None) -> Iterator[tuple[Family, list[Sample]]]:
    tally = shadow.tally if shadow is not None else None
    yield own.SHADOW_CONFIG, [((shadow.config_hash,), 1)] if shadow is not None else []
    yield own.SHADOW_REQUESTS, [((verdict,), n) for verdict, n in tally.requests.items()] if tally else []
    yield (
        own.SHADOW_HITS,
        [((pick, tier.value), n) for (pick, tier), n in tally.hit_tokens.items()] if tally else [],
    )
    yield own.SHADOW_SECONDS, [((), tally.seconds)] if tally else []


def _state_families(state: StateKept | None) -> Iterator[tuple[Family, list[Sample]]]:
    yield own.STATE_ENTRIES, [((), state.entries)] if state else []
    yield own.STATE_AGE, [((), state.age_s)] if state and state.age_s is not None else []
    yield own.STATE_LOADS, [((result,), n) for result, n in state.loads.items()] if state else []
    yield own.STATE_SAVES, [((result,), n) for result, n in state.saves.items()] if state else []
    yield own.STATE_SAVED_AT, [((), state.saved_at)] if state and state.saved_at is not None else []
    yield own.STATE_BYTES, [((), state.size)] if state and state.saved_at is not None else []
