"""Who is let in: requests of negative priority only while there is room."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
from epp.errors import SaturatedError
from epp.flow.contracts import SaturationDetector

__all__ = ["DEFAULT_PRIORITY", "OBJECTIVE_HEADERS", "Admission", "Objective"]

OBJECTIVE_HEADERS: Final = ("x-llm-d-inference-objective", "x-gateway-inference-objective")
DEFAULT_PRIORITY: Final = 0
_SATURATED: Final = 1.0


@dataclass(frozen=True, slots=True)
class Objective:
    """A named purpose of requests. Those of negative priority may be shed."""

    name: str
    priority: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Decides from a request's priority and how full the endpoints are that could take it.

    `priorities` is by the name of an objective.
    """

    detector: SaturationDetector
    priorities: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def priority(self, headers: Mapping[str, str]) -> int:
        """The priority of the objective that a request names; 0 when it names none, or an unknown one."""
        for header in OBJECTIVE_HEADERS if self.priorities else ():
            name = headers.get(header)
            if name is not None:
                return self.priorities.get(name, DEFAULT_PRIORITY)
        return DEFAULT_PRIORITY

    def check(self, priority: int, endpoints: tuple[Endpoint, ...], ledger: Ledger, now: float) -> None:
        """Let the request in, or not. `endpoints` are those that may be picked for it.

        Raises:
            SaturatedError: its priority is negative and the endpoints are saturated.
        """
        if priority >= 0:
            return
        saturation = self.detector.saturation(endpoints, ledger, now)
        if saturation is not None and saturation >= _SATURATED:
            raise SaturatedError(
                f"the endpoints are saturated, and requests of priority {priority} wait for room; try again"
            )
