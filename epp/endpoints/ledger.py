"""Exact in-flight counts of this router, by endpoint slot."""

__all__ = ["Ledger"]


class Ledger:
    """Requests and uncached prompt tokens in flight, and when each endpoint was last picked.

    Columns are lists indexed by slot, so that scorers read them without a call per endpoint. The director is
    the only writer; it releases exactly what it took. A slot's numbers belong to one endpoint: `reset` is
    called when the slot changes hands, and releases carry the epoch they were taken in, so that a late one
    cannot reach the next owner.
    """

    __slots__ = ("epochs", "last_picked", "picks", "requests", "tokens")

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.tokens: list[int] = []
        self.last_picked: list[int] = []  # number of the pick, 0: never
        self.epochs: list[int] = []
        self.picks = 0

    def ensure(self, slot: int) -> None:
        """Make room for `slot`."""
        missing = slot + 1 - len(self.requests)
        if missing > 0:
            for column in (self.requests, self.tokens, self.last_picked, self.epochs):
                column.extend([0] * missing)

    def reset(self, slot: int) -> None:
        """The slot has a new owner: counts start at zero and late releases are ignored."""
        self.ensure(slot)
        self.requests[slot] = self.tokens[slot] = self.last_picked[slot] = 0
        self.epochs[slot] += 1

    def take(self, slot: int, tokens: int) -> int:
        """Count one request with `tokens` uncached prompt tokens; returns the epoch to release with."""
        self.picks = self.last_picked[slot] = self.picks + 1
        self.requests[slot] += 1
        self.tokens[slot] += tokens
        return self.epochs[slot]

    def release_tokens(self, slot: int, tokens: int, epoch: int) -> None:
        """The prefill is done (first byte)."""
        if self.epochs[slot] == epoch:
            self.tokens[slot] -= tokens

    def release_request(self, slot: int, epoch: int) -> None:
        """The request ended."""
        if self.epochs[slot] == epoch:
            self.requests[slot] -= 1

    def total(self) -> int:
        """Requests in flight at all endpoints."""
        return sum(self.requests)
