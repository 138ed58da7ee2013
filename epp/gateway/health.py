"""gRPC's health check (grpc/health/v1): which names there are, and what they answer."""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from epp.gateway.messages import PICKER_SERVICE, Messages

__all__ = ["SERVING_NAMES", "Health"]

_ALIVE: Final = "liveness"
# Names that say whether requests should be sent here: those that probes, gateways and charts ask for.
SERVING_NAMES: Final = frozenset({"", "readiness", "inference-extension", PICKER_SERVICE})

_SERVING: Final = 1
_NOT_SERVING: Final = 2


class Health:
    """Answers checks in bytes."""

    def __init__(self, messages: Messages, ready: Callable[[], bool]) -> None:
        """`ready` says whether requests should be sent here at this moment."""
        self._ready = ready
        self._parse: Any = messages.HealthCheckRequest.FromString
        self._serving: bytes = messages.HealthCheckResponse(status=_SERVING).SerializeToString()
        self._not_serving: bytes = messages.HealthCheckResponse(status=_NOT_SERVING).SerializeToString()

    def check(self, service: str) -> bytes | None:
        """The answer for a name; None: there is no such service."""
        if service == _ALIVE:
            return self._serving
        if service in SERVING_NAMES:
            return self._serving if self._ready() else self._not_serving
        return None

    def service_of(self, request: bytes) -> str | None:
        """The name that a request asks for; None: it is not a request."""
        try:
            return str(self._parse(request).service)
        except DecodeError:
            return None
