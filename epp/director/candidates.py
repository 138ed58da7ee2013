"""Which endpoints may take a request, before any plugin is asked."""

from typing import Final

from epp.endpoints.health import PassiveHealth
from epp.endpoints.ledger import Ledger
from epp.endpoints.models import Resolution
from epp.endpoints.slow_start import SlowStart
from epp.endpoints.types import Endpoint
from epp.errors import NoEndpointsError, SaturatedError
from epp.flow.admission import Admission

__all__ = ["Candidates"]

_SHOWN: Final = 100  # characters of a name that an error repeats


class Candidates:
    """Health, admission, slow start and the limit of requests in flight, in this order."""

    def __init__(
        self,
        health: PassiveHealth,
        admission: Admission,
        slow_start: SlowStart,
        ledger: Ledger,
        inflight_per_endpoint: int,
    ) -> None:
        """Zero `inflight_per_endpoint` means no limit."""
        self._health = health
        self._admission = admission
        self._slow_start = slow_start
        self._ledger = ledger
        self._limit = inflight_per_endpoint

    def find(self, resolution: Resolution, priority: int, now: float) -> tuple[tuple[Endpoint, ...], bool]:
        """The endpoints, and whether they are all that may take any request for this model.

        Raises:
            NoEndpointsError: none is ready.
            SaturatedError: a request of this priority is not let in, or all are at their limit.
        """
        routable = self._health.routable(resolution.endpoints, now)
        if not routable:
            raise NoEndpointsError(_nobody(resolution))
        self._admission.check(priority, routable, self._ledger, now)
        warmed = self._slow_start.limit(routable, self._ledger, now)
        free = tuple(e for e in warmed if self.has_room(e)) if self._limit else warmed
        if not free:
            raise SaturatedError("every endpoint is at its limit of requests in flight; try again")
        # The same tuple object, so that what was computed for it is found.
        return (routable, True) if len(free) == len(routable) else (free, False)

    def has_room(self, endpoint: Endpoint) -> bool:
        """The endpoint is below its limit of requests in flight."""
        return not self._limit or self._ledger.requests[endpoint.slot] < self._limit


def _nobody(resolution: Resolution) -> str:
    of_model = f" serves model {resolution.model[:_SHOWN]!r}" if resolution.model else " is known"
    if not resolution.endpoints:
        return f"no endpoint{of_model}; check the endpoints and /readyz"
    return "no endpoint is ready: all are draining or unreachable; see /readyz"
