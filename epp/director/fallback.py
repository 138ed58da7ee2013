"""Where a request goes that an endpoint has failed: on in the decision's order, then beyond it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

from epp.director.exchange import Exchange
from epp.director.subset import is_allowed
from epp.endpoints.health import takes_requests
from epp.endpoints.types import Endpoint, Pool
from epp.errors import EppError

__all__ = ["go_beyond", "next_endpoint"]


def next_endpoint(exchange: Exchange, pool: Pool) -> Endpoint | None:
    """The next in the order that is still there, has room and was not tried."""
    for endpoint in exchange.order:
        there = pool.by_address.get(endpoint.address)
        if there is None or there.address in exchange.tried:
            continue
        if takes_requests(there) and exchange.state.candidates.has_room(there):
            return there
    return None


def go_beyond(exchange: Exchange, now: float) -> None:
    """Let those follow in the order that serve the model and were no candidates: better than an error.

    First all that warm up, then one that is ejected: each might cost the time to connect. Filters are asked
    as for any candidate. They are looked for when the first of them is needed.
    """
    exchange.order = chain(exchange.order, _left_out(exchange, now))


def _left_out(exchange: Exchange, now: float) -> Iterator[Endpoint]:
    resolution, request = exchange.resolution, exchange.request
    if resolution is None or request is None or request.stored_response:
        return  # who does not hold the stored response cannot answer
    others = [
        endpoint
        for endpoint in resolution.endpoints
        if endpoint.address not in exchange.tried
        and is_allowed(endpoint, exchange.subset)
        and takes_requests(endpoint)
    ]
    health = exchange.state.health
    yield from _order(exchange, tuple(e for e in others if health.ejected(e, now) is None))
    yield from islice(_order(exchange, tuple(e for e in others if health.ejected(e, now) is not None)), 1)


def _order(exchange: Exchange, endpoints: tuple[Endpoint, ...]) -> Iterator[Endpoint]:
    """Best first, without those that filters drop."""
    if not endpoints or exchange.decision is None:
        return iter(())
    cycle = replace(exchange.decision.cycle, candidates=endpoints, full=False)
    try:
        return iter(exchange.state.scheduler.schedule(cycle).primary.order)
    except EppError:
        return iter(())
