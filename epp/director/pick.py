"""Decisions for somebody else who sends the request: `POST /pick`, `epp.Picker`, `epp explain`."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from epp.director.director import Director
from epp.director.exchange import Exchange
from epp.director.receipts import receipt
from epp.director.types import RequestHead
from epp.endpoints.types import Endpoint

__all__ = ["Pick", "pick_list", "pick_now", "pick_steps"]


@dataclass(frozen=True, slots=True)
class Pick:
    """An answer: endpoints best first (`host:port`; how many the picker's `maxNumOfEndpoints` says).

    `model` is what a rule makes of the request's model, and to be sent in its place; None: no rule did.
    """

    endpoints: tuple[str, ...]
    receipt: Mapping[str, Any]
    model: str | None = None


def pick_steps(
    director: Director, head: RequestHead, body: bytes, now: float, *, commit: bool
) -> Generator[None, None, Pick]:
    """Decide for one request; yields about each MB of hashing.

    With `commit` the index notes the pick, as if the request went there; the ledger is never touched, since
    nobody will say when the request ends.

    Raises:
        EppError: as the proxy would answer.
    """
    exchange = Exchange(head, now, director.state, director.state.admission.priority(head.headers))
    yield from director.prepare(exchange, body, now)
    decision = director.schedule(exchange, now)
    told = _first(exchange, decision.primary.max_endpoints)
    if commit:
        director.commit(exchange, decision, told[0])
    model = exchange.rewrite.target if exchange.rewrite else None
    return Pick(tuple(e.address for e in told), receipt(exchange, told[0]), model)


def _first(exchange: Exchange, count: int) -> list[Endpoint]:
    return [endpoint for endpoint, _ in zip(exchange.order, range(count), strict=False)]


def pick_now(director: Director, head: RequestHead, body: bytes, now: float, *, commit: bool) -> Pick:
    """`pick_steps` without pauses."""
    steps = pick_steps(director, head, body, now, commit=commit)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            pick: Pick = done.value
            return pick


def pick_list(director: Director, exchange: Exchange, now: float, *, least: int = 1) -> tuple[str, ...]:
    """`Director.pick` for a gateway that sends the request: its endpoint, then those to try after it, as many
    in all as the picker's `maxNumOfEndpoints` says, and at least `least` if there are so many.

    Raises:
        SaturatedError, NoEndpointsError.
    """
    first = director.pick(exchange, now)
    most = exchange.decision.primary.max_endpoints if exchange.decision else 1
    others = islice(exchange.order, max(most, least) - 1)
    return (first.address, *(endpoint.address for endpoint in others))
