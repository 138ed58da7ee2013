"""The tiered prefix index: who holds which leading blocks of a prompt, in every view.

A view is one prefix producer, which is one tier of cache. All views share one tree of block runs
(`epp.prefix.tree`); each has its own LRU list and capacity for every endpoint slot.

Rules:

- **Closure.** Who holds a block holds all blocks before it. A touch makes the deepest block of its path the
  oldest, so eviction takes tails before heads and no block is left without its predecessors.
- **Capacity** counts tokens. Every call that adds evicts what is beyond it, but no more entries than a step
  may cost. The rest is held, and matched, until later calls for the same slot or `sweep` have caught up.
- **Steps** are bounded: `drop` hides a slot from matches at once and leaves the work to `sweep`.
- **Views** may come and go at any time. A number stands for one view for ever: what is told to one that was
  removed does nothing.
- **Weight.** A block keeps the weight in tokens with which it came into the tree, for all who hold it.
- No reference cycle is left by what is evicted, so the garbage collector has nothing to find here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from epp.prefix.integrity import check_index
from epp.prefix.matching import Segments, view_segments
from epp.prefix.residency import Occupancy, Residency
from epp.prefix.runs import Hold, Run
from epp.prefix.touches import Touch, refresh
from epp.prefix.tree import BlockTree

__all__ = ["DEFAULT_CAPACITY_TOKENS", "Occupancy", "PrefixIndex", "Touch"]

DEFAULT_CAPACITY_TOKENS: Final = 31_250 * 16  # the Go picker's default in engine blocks, of vLLM's 16 tokens
_EVICTIONS_PER_CALL: Final = 256  # less than half a millisecond


class _View:
    """One view's residencies and capacities by slot.

    `column` is its place in the masks of runs. `hidden` are dropped slots that are not yet clean; a view that
    was removed (`open` is False) keeps its column until there are none.
    """

    __slots__ = ("capacities", "column", "default_tokens", "hidden", "open", "residencies")

    def __init__(self, column: int, default_tokens: int) -> None:
        self.column = column
        self.default_tokens = default_tokens
        self.capacities: dict[int, int] = {}
        self.residencies: dict[int, Residency] = {}
        self.hidden = 0
        self.open = True


class PrefixIndex:
    """See the module. Not thread-safe; every method is one short synchronous step."""

    __slots__ = (
        "_added",
        "_columns",
        "_evictions_per_call",
        "_excessive",
        "_free",
        "_stamp",
        "_tree",
        "_views",
    )

    def __init__(self, evictions_per_call: int = _EVICTIONS_PER_CALL) -> None:
        self._tree = BlockTree()
        self._views: dict[int, _View] = {}  # by number
        self._added = 0
        self._columns: list[_View] = []  # whose each column is, or was
        self._free: list[int] = []  # columns that are nobody's
        self._stamp = 0
        self._evictions_per_call = evictions_per_call
        # Residencies beyond their capacity, in the order in which `sweep` takes them.
        self._excessive: dict[Residency, None] = {}

    # -- views and capacities

    def add_view(self, default_tokens: int = DEFAULT_CAPACITY_TOKENS) -> int:
        """Adds a view and returns its number. `default_tokens` is the capacity of slots that have no own.

        Raises:
            ValueError: the capacity is negative, or the index holds blocks and `make_room` was not called.
        """
        if default_tokens < 0:
            raise _negative(default_tokens)
        if not self._free:
            if self._tree.runs:
                raise ValueError("the index holds blocks and has no room for another view: see make_room")
            self._tree.columns += 1
            self._add_columns(1)
        view = _View(self._free.pop(), default_tokens)
        self._columns[view.column] = view
        number = self._added
        self._views[number] = view
        self._added += 1
        return number

    def make_room(self, views: int) -> Iterator[None]:
        """Makes it possible to add so many views; to be driven to its end, in steps below a millisecond."""
        missing = views - len(self._free)
        if missing > 0:
            yield from self._tree.widen(missing)
            self._add_columns(missing)

    def _add_columns(self, count: int) -> None:
        for column in range(len(self._columns), len(self._columns) + count):
            self._columns.append(_View(column, 0))
            self._free.append(column)

    def remove_view(self, number: int) -> None:
        """Forgets a view with all that it holds; its memory comes back with `sweep`."""
        view = self._views.pop(number)
        view.open = False
        for slot in list(view.residencies):
            self._drop(view, slot)
        if not view.hidden:
            self._free.append(view.column)

    def set_capacity(self, view: int, slot: int, tokens: int | None) -> None:
        """Sets what `slot` can hold in `view`; None means not known, and the view's default applies.

        May be called at any time, also for a busy slot (it is for the next owner then). What no longer fits
        is evicted in small steps, here and by `sweep`.
        """
        owner = self._views[view]
        if tokens is None:
            owner.capacities.pop(slot, None)
        elif tokens < 0:
            raise _negative(tokens)
        else:
            owner.capacities[slot] = tokens
        residency = owner.residencies.get(slot)
        if residency is not None:
            residency.capacity_tokens = owner.default_tokens if tokens is None else tokens
            self._evict(residency, self._evictions_per_call)

    # -- matching

    def match(self, chain: Sequence[int], views: Sequence[int] | None = None) -> list[Segments]:
        """Who holds how many leading blocks of `chain`, in the order of `views` (None: all, as added).

        A view's segments are (mask, blocks): each slot whose bit is in the mask holds exactly `blocks` blocks
        from the first one on. Masks are disjoint; blocks are above 0 and descend. A slot in no mask
        holds nothing of the chain.
        """
        path, depth = self._tree.walk(chain)
        known = self._views
        return [
            view_segments(path, depth, view.column, view.hidden) if (view := known.get(number)) else []
            for number in (known if views is None else views)
        ]

    # -- holding

    def touch(self, view: int, slot: int, chain: Sequence[int], block_tokens: int) -> Touch:
        """The endpoint in `slot` holds, or claims, the whole of `chain`: the most recently used path.

        Blocks that nobody holds in any view come to weigh `block_tokens` (at least 1) each, or as much as the
        blocks before them where that differs by no more than 1/16. Evicts beyond capacity; of a chain longer
        than the capacity the head stays. Does nothing for a busy slot.

        Raises:
            ValueError: `block_tokens` is below 1.
        """
        return self.touch_all((view,), slot, chain, block_tokens)[0]

    def touch_all(
        self, views: Sequence[int], slot: int, chain: Sequence[int], block_tokens: int
    ) -> list[Touch]:
        """As `touch`, in each of `views`; the chain is followed through the tree once.

        Raises:
            ValueError: `block_tokens` is below 1.
        """
        if block_tokens < 1:
            raise ValueError(f"block_tokens must be at least 1, got {block_tokens}")
        self._stamp = stamp = self._stamp + 1
        known, tree = self._views, self._tree
        touches: list[Touch] = []
        path: list[Run] = []
        crowded: list[Residency] = []
        for view in views:
            touch = Touch(stamp)
            touches.append(touch)
            try:
                residency = known[view].residencies[slot]
            except KeyError:
                if (new := self._new_residency(view, slot)) is None:
                    continue
                residency = new
            if chain:
                path = path or tree.grow(chain, block_tokens)
                refresh(tree, residency, path, touch)
                if residency.tokens > residency.capacity_tokens:
                    crowded.append(residency)
        if len(path) > 1:
            tree.mend(path)
        for residency in crowded:
            self._evict(residency, self._evictions_per_call)
        return touches

    def undo(self, touch: Touch) -> None:
        """Removes the blocks that `touch` added to its slot in its view, but those touched again since.

        For the claim of a request that failed. May be called again, and after eviction or `drop`.
        """
        for hold in touch.holds:
            # Another stamp: the hold was refreshed since, and with it all holds above, for a path is always
            # refreshed from its start.
            while hold.stamp == touch.stamp and hold.hi > max(hold.lo, touch.added_from):
                self._tree.shed(hold, hold.hi - max(hold.lo, touch.added_from))

    # -- anonymous runs

    def occupy(self, view: int, slot: int, tokens: int) -> Occupancy:
        """Takes `tokens` of the slot's capacity for what has no prefix: generated text, a live request.

        An occupancy is an LRU entry like any other and can be evicted, token by token. For a busy slot it is
        void: it takes nothing, and stays so.

        Raises:
            ValueError: `tokens` is negative.
        """
        try:
            residency: Residency | None = self._views[view].residencies[slot]
        except KeyError:
            residency = self._new_residency(view, slot)
        occupancy = Occupancy(residency)
        if tokens:
            self.resize(occupancy, tokens)
        return occupancy

    def resize(self, occupancy: Occupancy, tokens: int) -> None:
        """Makes an occupancy exactly `tokens` large and the newest entry, also where it had been evicted.

        Does nothing after `release` or `drop`.

        Raises:
            ValueError: `tokens` is negative.
        """
        if tokens < 0:
            raise _negative(tokens)
        residency = occupancy.residency
        if residency is not None and residency.open:
            before = occupancy.tokens
            if tokens and before:
                residency.make_newest(occupancy)
            elif tokens:
                residency.append(occupancy)
            elif before:
                occupancy.unlink()
            occupancy.tokens = tokens
            residency.tokens += tokens - before
            if residency.tokens > residency.capacity_tokens:
                self._evict(residency, self._evictions_per_call)

    def release(self, occupancy: Occupancy) -> None:
        """Gives back what an occupancy takes, for good. May be called again."""
        if occupancy.residency is not None:
            occupancy.shed(occupancy.residency, occupancy.tokens)
            occupancy.residency = None

    # -- slots

    def drop(self, slot: int, view: int | None = None) -> None:
        """Forgets what `slot` holds and its capacity, in one view or in all: no match names it from here on.

        The slot is busy until `sweep` has removed its entries; it must not be given to another endpoint
        before. For an endpoint that stays in its slot (its cache was reset) touches are void until then.
        """
        for owner in self._views.values() if view is None else (self._views[view],):
            self._drop(owner, slot)

    def _drop(self, view: _View, slot: int) -> None:
        view.capacities.pop(slot, None)
        residency = view.residencies.pop(slot, None)
        if residency is not None:
            residency.open = False
            residency.capacity_tokens = 0
            view.hidden |= residency.bit
            self._excessive[residency] = None

    def busy(self, slot: int) -> bool:
        """Whether entries of a dropped owner of `slot` still wait to be swept."""
        return any(view.hidden >> slot & 1 for view in self._columns)

    def sweep(self, budget: int) -> bool:
        """Does up to `budget` evictions (1 to 2 µs each) that other calls left; True when none are left.

        To be called from a timer until it says True; it costs next to nothing when there is nothing to do.
        """
        while budget and self._excessive:
            budget = self._evict(next(iter(self._excessive)), budget)
        return not self._excessive

    # -- figures

    def blocks(self, view: int, slot: int) -> int:
        """Prefix blocks that `slot` holds in `view`."""
        residency = self.residency(view, slot)
        return residency.blocks if residency is not None else 0

    def tokens(self, view: int, slot: int) -> int:
        """Tokens that `slot` holds in `view`, occupancies included."""
        residency = self.residency(view, slot)
        return residency.tokens if residency is not None else 0

    def residency(self, view: int, slot: int) -> Residency | None:
        """What `slot` holds in `view`, None where it never held anything; for reading only."""
        owner = self._views.get(view)
        return owner.residencies.get(slot) if owner is not None else None

    def size(self, view: int) -> int:
        """Index entries of a view: blocks, summed over its slots."""
        return sum(residency.blocks for residency in self.residencies(view))

    def nodes(self) -> int:
        """Runs in the tree, whoever holds them."""
        return self._tree.runs

    def residencies(self, view: int) -> list[Residency]:
        """The LRU lists of a view, one a slot; for reading only."""
        owner = self._views.get(view)
        return list(owner.residencies.values()) if owner is not None else []

    def check_integrity(self) -> None:
        """Compares the whole index with itself. Slow: visits every run and entry.

        Raises:
            ValueError: naming the first rule that is broken, and where.
        """
        known = {residency for view in self._views.values() for residency in view.residencies.values()}
        check_index(self._tree, known | self._excessive.keys(), self._excessive)

    def _new_residency(self, view: int, slot: int) -> Residency | None:
        """A slot's residency on first use; None while the slot is busy, or when the view is gone."""
        owner = self._views.get(view)
        if owner is None or owner.hidden >> slot & 1:
            return None
        capacity = owner.capacities.get(slot, owner.default_tokens)
        residency = owner.residencies[slot] = Residency(owner.column, slot, capacity)
        return residency

    def _evict(self, residency: Residency, budget: int) -> int:
        """Evicts oldest first until the capacity holds or the budget is spent; returns what is left of it."""
        capacity = residency.capacity_tokens
        while (excess := residency.tokens - capacity) > 0:
            if not budget:
                self._excessive[residency] = None
                return 0
            budget -= 1
            oldest = residency.newer
            if isinstance(oldest, Occupancy):
                oldest.shed(residency, excess)
            else:
                hold: Hold = oldest  # type: ignore[assignment]  # the only other kind of entry
                self._tree.shed(hold, -(-excess // hold.run.weight))
        if residency in self._excessive:
            del self._excessive[residency]
            if not residency.open:
                self._clean(self._columns[residency.column], residency)
        return budget

    def _clean(self, view: _View, residency: Residency) -> None:
        """The last entry of a dropped residency is gone."""
        view.hidden ^= residency.bit
        if not view.open and not view.hidden:
            self._free.append(view.column)


def _negative(tokens: int) -> ValueError:
    return ValueError(f"tokens must be at least 0, got {tokens}")
