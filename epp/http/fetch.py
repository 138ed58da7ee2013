"""One small response as a whole, for scraping and probes."""

from dataclasses import dataclass

from epp.http.pool import UpstreamPool
from epp.http.types import Headers, Origin, UpstreamFailure, UpstreamRequest

__all__ = ["FetchError", "Response", "fetch"]


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    status: int
    headers: Headers
    body: bytes


class FetchError(Exception):
    """No complete response; `failure` says why."""

    def __init__(self, failure: UpstreamFailure) -> None:
        super().__init__(f"{failure.kind}: {failure.detail}")
        self.failure = failure


async def fetch(
    pool: UpstreamPool, origin: Origin, request: UpstreamRequest, *, timeout_s: float, max_bytes: int
) -> Response:
    """Send `request` and collect the response.

    Raises:
        FetchError: it failed, took longer than `timeout_s`, or its body is larger than `max_bytes`.
    """
    raise NotImplementedError
