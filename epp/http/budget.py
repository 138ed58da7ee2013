"""How many bytes of request bodies all front doors may hold together."""

from epp.errors import OverloadedError

__all__ = ["BodyBudget", "BodyHold"]


class BodyBudget:
    """Bytes of all bodies that are being held, and the most there may be."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0


class BodyHold:
    """One request's share of the budget."""

    __slots__ = ("_budget", "_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._bytes = 0

    def take(self, size: int) -> None:
        """Hold `size` more bytes.

        Raises:
            OverloadedError: there is no room; nothing was taken.
        """
        budget = self._budget
        held_bytes = budget.held_bytes + size
        if held_bytes > budget.max_bytes:
            raise OverloadedError("too many bytes of request bodies are in flight; try again")
        budget.held_bytes = held_bytes
        self._bytes += size

    def release(self) -> None:
        """Give everything back; a second call gives back nothing."""
        if self._bytes:
            self._budget.held_bytes -= self._bytes
            self._bytes = 0
