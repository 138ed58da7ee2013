"""Endpoints, cycles and plugins that scheduling tests are made of."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec
from epp.request.types import Api, InferenceRequest
from epp.scheduling.contracts import BuildContext, Cycle, PrefixMatch

REQUEST = InferenceRequest(Api.CHAT, "m", "", (), stream=False, body_bytes=100)


def endpoint(slot, *, metrics=None, fresh=True, incarnation=1, host=None, labels=None):
    """10.0.0.<slot+1>:8000 in `slot`."""
    spec = EndpointSpec("http", host or f"10.0.0.{slot + 1}", 8000, labels or {})
    return Endpoint(
        slot=slot, incarnation=incarnation, spec=spec, metrics=metrics, fresh=fresh and metrics is not None
    )


def fleet(count, **columns):
    """`count` endpoints; each keyword is a metric with a value for each, None for never scraped."""
    found = []
    for slot in range(count):
        values = {name: column[slot] for name, column in columns.items()}
        known = {name: value for name, value in values.items() if value is not None}
        found.append(endpoint(slot, metrics=EndpointMetrics(**known) if known else None))
    return tuple(found)


def labelled(*labels):
    """One endpoint a dictionary of labels."""
    return tuple(endpoint(slot, labels=told) for slot, told in enumerate(labels))


def ledger(
    requests: Sequence[int] = (), last_picked: Sequence[int] = (), size: int = 8, tokens: Sequence[int] = ()
) -> Ledger:
    """A ledger with these counts by slot."""
    made = Ledger()
    made.ensure(max(size, len(requests), len(last_picked), len(tokens)) - 1)
    made.requests[: len(requests)] = requests
    made.tokens[: len(tokens)] = tokens
    made.last_picked[: len(last_picked)] = last_picked
    return made


def cycle(
    candidates: tuple[Endpoint, ...],
    *,
    matches: Mapping[str, PrefixMatch] | None = None,
    ledger: Ledger | None = None,
    pool_version: int = 1,
    full: bool = True,
    headers: Mapping[str, str] | None = None,
    adapter: str = "",
    prompt_tokens: int = 1000,
    now: float = 0.0,
    request: InferenceRequest = REQUEST,
    chain: Sequence[int] = (),
    chain_block_tokens: float = 0.0,
) -> Cycle:
    """A cycle over `candidates`."""
    book = ledger or Ledger()
    book.ensure(max((e.slot for e in candidates), default=0))
    return Cycle(
        request=request,
        model="m",
        adapter=adapter,
        prompt_tokens=prompt_tokens,
        candidates=candidates,
        pool_version=pool_version,
        matches=matches or {},
        ledger=book,
        now=now,
        full=full,
        headers=headers or {},
        chain=chain,
        chain_block_tokens=chain_block_tokens,
    )


def context(producers: Sequence[str] = (), seed: int = 1) -> BuildContext:
    """What factories get."""
    return BuildContext(random=random.Random(seed), producers=frozenset(producers), warn=lambda _: None)


@dataclass
class FixedScorer:
    """Gives the scores it is told, by slot, and counts how often it is asked."""

    name: str
    by_slot: Sequence[float]
    volatility: str = "request"
    type: str = "fixed-scorer"
    asked: int = 0

    def score(self, cycle):
        self.asked += 1
        return [self.by_slot[e.slot] for e in cycle.candidates]


@dataclass
class DropFilter:
    """Drops the endpoints in these slots and remembers whom it saw."""

    name: str
    slots: Sequence[int]
    type: str = "drop-filter"
    volatility: str = "request"
    seen: list[list[int]] = field(default_factory=list)

    def filter(self, cycle):
        self.seen.append([e.slot for e in cycle.candidates])
        return tuple(e for e in cycle.candidates if e.slot not in self.slots)


def slots_of(order: Iterator[Endpoint], count: int | None = None) -> list[int]:
    """The first `count` slots of an order, all when None."""
    return [e.slot for e in order] if count is None else [next(order).slot for _ in range(count)]
