"""What one endpoint holds in one view, in the order in which it would be evicted."""

from collections.abc import Iterator

__all__ = ["Bookmark", "Link", "Occupancy", "Residency"]


class Link:
    """An entry of a circular, doubly linked LRU list. Outside of a list its two links are not set at all.

    (Links to itself would make every evicted entry a reference cycle for the garbage collector.)
    """

    __slots__ = ("newer", "older")

    newer: "Link"
    older: "Link"

    def unlink(self) -> None:
        """Takes the entry out of its list."""
        self.older.newer = self.newer
        self.newer.older = self.older
        del self.newer, self.older


class Residency(Link):
    """The LRU list of one endpoint slot in one view. It is its own sentinel.

        residency ──newer──▶ oldest ──newer──▶ … ──newer──▶ newest ──newer──▶ residency

    A linked list, not an ordered dictionary: moving an entry, and putting one beside another, never pays for
    the size of the rest.

    Attributes:
        column: of its view in the masks of runs.
        slot: number of the endpoint's slot.
        bit: the slot's bit in masks.
        capacity_tokens: eviction starts above this.
        tokens: weight of all entries.
        blocks: prefix blocks held; occupancies have none.
        open: False once the slot was dropped; what is left only waits to be swept.
    """

    __slots__ = ("bit", "blocks", "capacity_tokens", "column", "open", "slot", "tokens")

    def __init__(self, column: int, slot: int, capacity_tokens: int) -> None:
        self.newer = self
        self.older = self
        self.column = column
        self.slot = slot
        self.bit = 1 << slot
        self.capacity_tokens = capacity_tokens
        self.tokens = 0
        self.blocks = 0
        self.open = True

    def entries(self) -> Iterator[Link]:
        """All entries, oldest first; the list must not change meanwhile."""
        entry = self.newer
        while entry is not self:
            yield entry
            entry = entry.newer

    def append(self, entry: Link) -> None:
        """Puts `entry`, which is in no list, at the newest end."""
        newest = self.older
        entry.older = newest
        entry.newer = self
        newest.newer = entry
        self.older = entry

    def insert(self, entry: Link, older: Link) -> None:
        """Puts `entry`, which is in no list, right behind `older`; behind the list itself it is oldest."""
        newer = older.newer
        entry.older = older
        entry.newer = newer
        older.newer = entry
        newer.older = entry

    def make_newest(self, entry: Link) -> None:
        """Moves `entry` of this list to the newest end."""
        older, newer = entry.older, entry.newer
        older.newer = newer
        newer.older = older
        newest = self.older
        entry.older = newest
        entry.newer = self
        newest.newer = self.older = entry


class Occupancy(Link):
    """Tokens without a prefix: what live requests and generated text take of a view's capacity.

    In its residency's list exactly while `tokens` is above 0. `residency` is None once it counts no more.
    """

    __slots__ = ("residency", "tokens")

    def __init__(self, residency: Residency | None) -> None:
        self.residency = residency
        self.tokens = 0

    def shed(self, residency: Residency, tokens: int) -> None:
        """Gives back at most `tokens` to `residency`, its own; what is left keeps its age."""
        given = min(tokens, self.tokens)
        if given:
            self.tokens -= given
            residency.tokens -= given
            if not self.tokens:
                self.unlink()


class Bookmark(Occupancy):
    """Marks a place in a list that changes meanwhile; takes no tokens, and eviction throws it out."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    @property
    def lost(self) -> bool:
        """In no list: then everything older than its place has been evicted."""
        return not hasattr(self, "newer")

    def shed(self, residency: Residency, tokens: int) -> None:
        """Leave the list."""
        del residency, tokens
        self.unlink()
