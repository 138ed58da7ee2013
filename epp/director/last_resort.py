"""Where a request goes when every candidate has failed it: endpoints that were none, rather than an error."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from epp.director.exchange import Exchange
from epp.director.subset import is_allowed
from epp.endpoints.health import takes_requests
from epp.endpoints.types import Endpoint
from epp.errors import EppError

__all__ = ["left_out"]


def left_out(exchange: Exchange, now: float) -> Iterator[Endpoint]:
    """Those that serve the model and were kept from this request by slow start or an ejection.

    First all that warm up, then one that is ejected: each might cost the time to connect. Filters are asked
    as for any candidate. What is looked at is the state when the first of them is asked for; a request for a
    stored response has nowhere else to go.
    """
    resolution, request = exchange.resolution, exchange.request
    if resolution is None or request is None or request.stored_response:
        return
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
