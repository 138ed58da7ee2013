"""What the control surface shows, handed in by the composition root."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from epp.api.access import AccessPolicy
from epp.clock import Clock
from epp.director.director import Director

__all__ = ["DecisionLog", "Ports", "Readiness"]

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests should be sent here; `reasons` says why not, `detail` is for people."""

    ready: bool
    reasons: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


class DecisionLog(Protocol):
    """The last decisions, rendered on demand."""

    def render(self, limit: int) -> Iterable[dict[str, Any]]:
        """The newest `limit`, newest first, each rendered when it is asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything the routes read. `metrics` yields the page in slices of bounded work.

    `private`: details of the pool are for those who may see receipts. `admit_metrics` judges who asks for the
    page, given the headers, and raises EppError for those who may not; None: everybody may.
    """

    director: Director
    clock: Clock
    access: AccessPolicy
    readiness: Callable[[], Readiness]
    metrics: Callable[[], Iterator[bytes]]
    metrics_content_type: str
    decisions: DecisionLog
    configuration: Callable[[], Mapping[str, Any]]
    max_request_bytes: int
    version: str
    private: bool = False
    admit_metrics: Callable[[Headers], Awaitable[None]] | None = None
