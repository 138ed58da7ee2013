"""Requests that are with an endpoint, counted by what metrics label them with."""

from typing import Final

__all__ = ["RunningKey", "RunningRequests"]

RunningKey = tuple[str, str, str, int]  # model as named, target model, fairness id, priority
_DEFAULT_FLOW: Final = "default-flow"


class RunningRequests:
    """Counts that are gone when they are zero, so that names which clients made up do not pile up."""

    def __init__(self) -> None:
        self._counts: dict[RunningKey, int] = {}

    def counts(self) -> dict[RunningKey, int]:
        """The counts of this moment."""
        return dict(self._counts)

    def enter(self, model: str | None, target: str, priority: int = 0) -> RunningKey:
        """A request goes to its first endpoint; returns the key to leave with."""
        key = (model or target, target, _DEFAULT_FLOW, priority)
        self._counts[key] = self._counts.get(key, 0) + 1
        return key

    def leave(self, key: RunningKey) -> None:
        """It ended."""
        left = self._counts.pop(key) - 1
        if left:
            self._counts[key] = left
