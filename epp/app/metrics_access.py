"""Who may read /metrics, where the API server is asked: as the Go picker's `--metrics-endpoint-auth`."""

import logging
from collections.abc import Iterable
from typing import Final

from epp.clock import Clock
from epp.discovery.kubernetes.reviews import Reviewer, Verdict
from epp.errors import ForbiddenError, InternalError, UnauthorizedError
from epp.observability.logs import RateLimitedLogger

__all__ = ["MetricsAccess"]

_PATH: Final = "/metrics"


class MetricsAccess:
    """Admits those whose token the API server knows and who may `get` the non-resource URL `/metrics`."""

    def __init__(self, reviewer: Reviewer, clock: Clock) -> None:
        self._reviewer = reviewer
        self._log = RateLimitedLogger(logging.getLogger("epp.security"), clock.monotonic)

    async def admit(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Judge a request by its headers, whose names are lower-case.

        Raises:
            UnauthorizedError: it shows no token that the API server knows.
            ForbiddenError: the token's owner may not get /metrics.
            InternalError: nobody can tell; the log says why.
        """
        ruling = await self._reviewer.rule(_token(headers), "get", _PATH)
        if ruling.verdict is Verdict.UNKNOWN_TOKEN:
            raise UnauthorizedError("a token of the cluster is needed: send Authorization: Bearer TOKEN")
        if ruling.verdict is Verdict.FORBIDDEN:
            grant = "a ClusterRole with nonResourceURLs: [/metrics] and verbs: [get]"
            raise ForbiddenError(f"{ruling.detail} may not get {_PATH}; {grant} allows it")
        if ruling.verdict is Verdict.FAILED:
            self._log.warning(
                "reviews", f"nobody gets {_PATH}: who asks for it cannot be told: {ruling.detail}"
            )
            raise InternalError("the API server cannot be asked who may read this")

    async def close(self) -> None:
        """Close the connections."""
        await self._reviewer.close()


def _token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The bearer token, "" without one."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, token = value.strip().partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""
