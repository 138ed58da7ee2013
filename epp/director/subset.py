"""The endpoints that a gateway allows for one request."""

from epp.endpoints.types import Endpoint
from epp.errors import NoEndpointsError

__all__ = ["is_allowed", "subset_of", "within"]


def subset_of(named: tuple[str, ...]) -> frozenset[str]:
    """What `Exchange.subset` holds for addresses (`ip:port`) and hosts (`ip`; of IPv6 with or without
    brackets).
    """
    return frozenset(name[1:-1] if name.startswith("[") and name.endswith("]") else name for name in named)


def is_allowed(endpoint: Endpoint, subset: frozenset[str] | None) -> bool:
    """Whether the gateway allows an endpoint; None allows all."""
    return subset is None or endpoint.address in subset or endpoint.spec.host in subset


def within(candidates: tuple[Endpoint, ...], subset: frozenset[str] | None) -> tuple[Endpoint, ...]:
    """Those of the candidates that are allowed; None allows all.

    Raises:
        NoEndpointsError: none is.
    """
    if subset is None:
        return candidates
    allowed = tuple(e for e in candidates if is_allowed(e, subset))
    if not allowed:
        raise NoEndpointsError("no endpoint that the gateway allows for this request is ready")
    return allowed
