"""Endpoints that were no candidates, and why: noted when it is decided, since health goes on changing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from epp.director.state import State
from epp.director.subset import is_allowed
from epp.endpoints.health import takes_requests
from epp.endpoints.models import Resolution
from epp.endpoints.types import Endpoint
from epp.scheduling.receipt import Excluded

__all__ = ["NOBODY_RULED_OUT", "RuledOut", "ruled_out"]


@dataclass(frozen=True, slots=True)
class RuledOut:
    """What it takes to say it later; iterating says it.

    Attributes:
        pool: every endpoint at that moment.
        considered: those that serve the model, and the candidates.
        reasons: by slot, of those that serve the model and were no candidates.
    """

    pool: Sequence[Endpoint]
    considered: Sequence[Endpoint]
    reasons: Mapping[int, str]

    def __iter__(self) -> Iterator[Excluded]:
        considered = {endpoint.slot for endpoint in self.considered}
        for endpoint in self.pool:
            if endpoint.slot not in considered:
                yield Excluded(endpoint.address, "serves another model")
            elif endpoint.slot in self.reasons:
                yield Excluded(endpoint.address, self.reasons[endpoint.slot])


NOBODY_RULED_OUT: Final = RuledOut((), (), {})


def ruled_out(
    state: State,
    resolution: Resolution,
    candidates: Sequence[Endpoint],
    now: float,
    *,
    held: bool,
    subset: frozenset[str] | None = None,
) -> RuledOut:
    """Who was ruled out.

    `held`: the one candidate holds the stored response that the request names; `subset` is what a gateway
    allows, None: all.
    """
    serving, pool = resolution.endpoints, state.table.pool.endpoints
    if not held and len(candidates) == len(serving):
        return RuledOut(pool, serving, {})
    chosen = {endpoint.slot for endpoint in candidates}
    reasons = {
        endpoint.slot: "does not hold the stored response" if held else _why(state, endpoint, now, subset)
        for endpoint in serving
        if endpoint.slot not in chosen
    }
    return RuledOut(pool, (*serving, *candidates), reasons)


def _why(state: State, endpoint: Endpoint, now: float, subset: frozenset[str] | None) -> str:
    if not is_allowed(endpoint, subset):
        return "not allowed by the gateway"
    if endpoint.draining:
        return "draining"
    if not takes_requests(endpoint):
        return "asleep"
    ejection = state.health.ejected(endpoint, now)
    if ejection is not None:
        return f"ejected: {ejection.cause}"
    if state.candidates.has_room(endpoint):
        return "warming up"
    return "at its limit of requests in flight"
