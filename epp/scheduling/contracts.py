"""What a scheduling plugin is: filter, scorer, picker, profile handler, producer.

A cycle is one decision. Plugins are pure: they read the cycle and return a value; only the director writes
(ledger, index), in the same synchronous step. Scores are in [0, 1] and are clamped; weights belong to the
profile. A column is aligned with `cycle.candidates`: a list, or a `SegmentColumn` where few numbers differ.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol, runtime_checkable

import msgspec

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
from epp.request.types import InferenceRequest
from epp.scheduling.columns import CandidateSlots, Column, SegmentColumn

__all__ = [
    "NEAR_SHARE", "NO_MATCH", "BuildContext", "CandidateSlots", "Column", "Cycle", "Decision", "Filter",
    "Narrowing", "PickObserver", "Picker", "PrefixMatch", "ProfileHandler", "ProfileResult",
    "ResponseHeaderPlugin", "ResponseObserver", "ScoredColumn", "Scorer", "SegmentColumn", "Volatility",
]  # fmt: skip

# Totals that differ by less than this share of the largest possible one are close to each other.
NEAR_SHARE: Final = 0.01

# When what a plugin says of the same candidates may change: with a new snapshot of the pool ("snapshot") or
# with each request or pick ("request").
Volatility = Literal["snapshot", "request"]


class PrefixMatch(msgspec.Struct, frozen=True):
    """How much of the request's prefix each endpoint holds in one view of the index.

    `segments` are (mask, blocks): every endpoint whose slot bit is in `mask` holds exactly `blocks` leading
    blocks. Masks are disjoint, blocks > 0; an endpoint in no mask holds nothing. With several prompts blocks
    are summed over them. `total_blocks` is the number of hashed blocks of the request, `block_tokens` what
    one of them is worth for this request (learned, hence a float).
    """

    segments: tuple[tuple[int, int], ...] = ()
    total_blocks: int = 0
    block_tokens: float = 0.0

    def blocks(self, slot: int) -> int:
        """Leading blocks that the endpoint in `slot` holds."""
        for mask, blocks in self.segments:
            if mask >> slot & 1:
                return blocks
        return 0


NO_MATCH = PrefixMatch()


@dataclass(slots=True)
class Cycle:
    """One decision's inputs.

    Attributes:
        request: the parsed request.
        model: the resolved model or adapter name ("" when the pool does not know models).
        adapter: the adapter's name, "" for a base model.
        prompt_tokens: estimated length of all prompts.
        candidates: endpoints that may still be picked; filters shrink it.
        pool_version: `Pool.version` the candidates come from.
        full: candidates are all routable endpoints of that pool and model, so columns may be kept; the
            same tuple object is then handed in until `pool_version` changes.
        matches: by producer name.
        ledger: exact in-flight counts.
        headers: lower-case request headers that plugins may read.
        now: monotonic seconds.
        chain: block hashes of the first prompt, each standing for its whole prefix; empty for none.
        chain_block_tokens: what one of its blocks is worth.
    """

    request: InferenceRequest
    model: str
    adapter: str
    prompt_tokens: int
    candidates: tuple[Endpoint, ...]
    pool_version: int
    matches: Mapping[str, PrefixMatch]
    ledger: Ledger
    now: float
    full: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    chain: Sequence[int] = ()
    chain_block_tokens: float = 0.0
    known_slots: CandidateSlots | None = field(default=None, repr=False)

    def slots(self) -> CandidateSlots:
        """Slots of the candidates; computed once for one tuple of candidates."""
        known = self.known_slots
        if known is None or known.candidates is not self.candidates:
            known = self.known_slots = CandidateSlots(self.candidates)
        return known


@runtime_checkable
class Filter(Protocol):
    """Drops candidates that must not be picked.

    One that is "snapshot" returns the same tuple object for the same tuple object, so that what scorers said
    of it may be kept.
    """

    type: ClassVar[str]
    name: str

    @property
    def volatility(self) -> Volatility:
        """When it may let others pass."""
        ...

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates to keep, in the same order. Empty means: none can take the request."""
        ...


class Scorer(Protocol):
    """Rates candidates. The column of one that is "snapshot" is kept until the pool has a new snapshot."""

    type: ClassVar[str]
    volatility: ClassVar[Volatility]
    name: str

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate, in their order."""
        ...


@runtime_checkable
class PickObserver(Protocol):
    """A plugin with a memory of picks. It is told through `Scheduler.on_picked`, by the director alone."""

    def on_picked(self, cycle: Cycle, endpoint: Endpoint) -> None:
        """The request of `cycle` goes to `endpoint`."""
        ...


@runtime_checkable
class ResponseObserver(Protocol):
    """A plugin that learns from answers. It is told through the scheduler, by the director alone.

    A request is known by `cycle.request`, the same object from the pick to the end; one that is sent again is
    picked again.
    """

    def on_first_token(self, cycle: Cycle, now: float) -> None:
        """The first byte of a 2xx answer came."""
        ...

    def on_ended(self, cycle: Cycle, now: float, output_tokens: int | None) -> None:
        """The endpoint has nothing more to do for the request; without tokens it failed, or told none."""
        ...


@runtime_checkable
class ResponseHeaderPlugin(Protocol):
    """A plugin that tells the client something. It is asked through `Scheduler.response_headers`."""

    def response_headers(self, endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
        """Headers for the answer that `endpoint` gave: lower-case names, values of visible ASCII."""
        ...


class ScoredColumn(msgspec.Struct, frozen=True, eq=False):
    """A scorer's clamped column before weighting, kept by reference for the receipt."""

    scorer: str
    type: str
    weight: float
    scores: Column


class Picker(Protocol):
    """Orders the candidates, best first."""

    type: ClassVar[str]
    name: str
    max_endpoints: int  # how many a gateway is told; retries may use the whole order

    def order(
        self, cycle: Cycle, totals: Column, weight_sum: float, contenders: Sequence[int] | None = None
    ) -> Iterable[Endpoint]:
        """All candidates, best first; lazy, since mostly only the first is needed.

        `weight_sum` is the largest total that the profile can give: what a tolerance is measured by.
        `contenders`, where known, are places of candidates in their order: all whose total is within
        `NEAR_SHARE` of `weight_sum` below the highest, and maybe others.
        """
        ...


class Narrowing(msgspec.Struct, frozen=True, eq=False):
    """What a filter did: the candidates before it and after it."""

    filter: str
    before: tuple[Endpoint, ...]
    after: tuple[Endpoint, ...]


class ProfileResult(msgspec.Struct, frozen=True, eq=False):
    """What one profile decided. `order` yields candidates best first and may be consumed once.

    `narrowed` has the filters that dropped candidates, in order.
    """

    profile: str
    candidates: tuple[Endpoint, ...]
    narrowed: tuple[Narrowing, ...]
    columns: tuple[ScoredColumn, ...]
    totals: Column
    order: Iterable[Endpoint]
    max_endpoints: int = 1

    @property
    def excluded(self) -> tuple[tuple[Endpoint, str], ...]:
        """Candidates that were dropped, each with the name of the filter; made when asked for."""
        found: list[tuple[Endpoint, str]] = []
        for step in self.narrowed:
            left = {endpoint.slot for endpoint in step.after}
            found += [(endpoint, step.filter) for endpoint in step.before if endpoint.slot not in left]
        return tuple(found)


class ProfileHandler(Protocol):
    """Chooses the profiles to run and names the one that decides."""

    type: ClassVar[str]
    name: str

    def pick(self, cycle: Cycle, profiles: Sequence[str], done: Mapping[str, ProfileResult]) -> Sequence[str]:
        """Profiles to run next; empty ends the loop."""
        ...

    def primary(self, done: Mapping[str, ProfileResult]) -> str:
        """The profile whose order is used."""
        ...


class Decision(msgspec.Struct, frozen=True, eq=False):
    """The scheduler's answer: the primary profile's result and the cycle it was made from."""

    cycle: Cycle
    primary: ProfileResult
    results: Mapping[str, ProfileResult]


def _never_scraped(_address: str) -> float | None:
    """Nobody tells ages."""
    return None


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a plugin's factory may use beside its parameters.

    Attributes:
        random: the seeded generator.
        producers: names of prefix producers that exist.
        warn: tells the operator something at start.
        scraped_at: monotonic seconds of an endpoint's last good scrape, by address; None before the first.
        scrape_interval_s: longest time from one scrape of an endpoint to the next.
        cpu_producers: those of `producers` that stand for a CPU tier; the others stand for a GPU tier.
    """

    random: random.Random
    producers: frozenset[str]
    warn: Callable[[str], None]
    scraped_at: Callable[[str], float | None] = _never_scraped
    scrape_interval_s: float = 0.5
    cpu_producers: frozenset[str] = frozenset()
