"""What scrapes and probes share: how to ask an endpoint, and what can go wrong."""

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from epp.endpoints.types import Endpoint
from epp.http import ErrorKind, FetchError, Headers, Origin, Response, UpstreamPool, UpstreamRequest, fetch

__all__ = ["Fetch", "ScrapeError", "ScrapeFault", "Sleep", "ask", "fetch_through", "probe_headers"]

Sleep = Callable[[float], Awaitable[None]]
Fetch = Callable[[Origin, UpstreamRequest, float], Awaitable[Response]]
"""Gets a response within so many seconds, or raises FetchError."""

_MAX_BYTES: Final = 16 * 1024 * 1024


class ScrapeFault(enum.StrEnum):
    """Why a scrape or a probe brought nothing."""

    CONNECT = "connect"  # refused, unreachable or not connected in time: counts for passive health
    TIMEOUT = "timeout"
    BROKEN = "broken"
    STATUS = "status"  # another status than 200
    PARSE = "parse-error"
    LOCAL = "local"  # this router ran out of something: says nothing of the endpoint


_FAULTS: Final[Mapping[ErrorKind, ScrapeFault]] = {
    ErrorKind.CONNECT: ScrapeFault.CONNECT,
    ErrorKind.CONNECT_TIMEOUT: ScrapeFault.CONNECT,
    ErrorKind.FIRST_BYTE_TIMEOUT: ScrapeFault.TIMEOUT,
    ErrorKind.IDLE_TIMEOUT: ScrapeFault.TIMEOUT,
    ErrorKind.TOTAL_TIMEOUT: ScrapeFault.TIMEOUT,
    ErrorKind.POOL_EXHAUSTED: ScrapeFault.LOCAL,
}


class ScrapeError(Exception):
    """An endpoint did not give what it was asked for."""

    def __init__(self, fault: ScrapeFault, detail: str) -> None:
        super().__init__(f"{fault}: {detail}")
        self.fault = fault
        self.detail = detail


def fetch_through(pool: UpstreamPool, max_bytes: int = _MAX_BYTES) -> Fetch:
    """Fetch through `pool`, taking at most `max_bytes` of a body."""

    async def fetch_one(origin: Origin, request: UpstreamRequest, timeout_s: float) -> Response:
        return await fetch(pool, origin, request, timeout_s=timeout_s, max_bytes=max_bytes)

    return fetch_one


def probe_headers(accept: bytes, api_key: str | None) -> Headers:
    """Headers of a probe. Authorization only with a key of the endpoints' own: a client's is never used."""
    headers: Headers = [(b"accept", accept)]
    if api_key is not None:
        headers.append((b"authorization", b"Bearer " + api_key.encode()))
    return headers


async def ask(
    fetch_one: Fetch, endpoint: Endpoint, scheme: str | None, request: UpstreamRequest, timeout_s: float
) -> bytes:
    """The body of a 200 answer; `scheme` overrides the endpoint's own.

    Raises:
        ScrapeError: no answer, or another status.
    """
    spec = endpoint.spec
    origin = Origin(scheme or spec.scheme, spec.host, spec.port)
    try:
        response = await fetch_one(origin, request, timeout_s)
    except FetchError as error:
        fault = _FAULTS.get(error.failure.kind, ScrapeFault.BROKEN)
        raise ScrapeError(fault, error.failure.detail) from None
    if response.status != 200:
        raise ScrapeError(ScrapeFault.STATUS, f"{request.target.decode()} answered {response.status}")
    return response.body
