"""What the filters by label share."""

from collections.abc import Callable, Mapping

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import Cycle, Volatility

__all__ = ["LabelFilter"]


class LabelFilter:
    """Keeps the endpoints whose labels `allows` accepts; asked once for the same candidates."""

    volatility: Volatility = "snapshot"

    def __init__(self, name: str, allows: Callable[[Mapping[str, str]], bool]) -> None:
        self.name = name
        self._allows = allows
        self._kept: IdentityCache[tuple[Endpoint, ...]] = IdentityCache()

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates to keep, in the same order."""
        kept = self._kept.get(cycle.candidates)
        if kept is None:
            kept = tuple(e for e in cycle.candidates if self._allows(e.spec.labels))
            self._kept.put(cycle.candidates, kept)
        return kept
