"""The index against a model that keeps one ordered dictionary of blocks for each view and slot."""

import itertools
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from epp.prefix import Occupancy, PrefixIndex, Touch

VIEWS = 2
SLOTS = 7


@cache
def chain_of(text):
    """One hash a letter, each standing for the text up to it: the same list for the same text."""
    return [xxh64_intdigest(text[: end + 1].encode()) for end in range(len(text))]


@dataclass
class Entry:
    tokens: int
    touched_by: int = 0


@dataclass
class NaiveIndex:
    """Block by block, as slow as it is plain."""

    capacities: dict = field(default_factory=dict)
    held: dict = field(default_factory=dict)
    touches: int = 0

    def entries(self, view, slot):
        return self.held.setdefault((view, slot), OrderedDict())

    def tokens(self, view, slot):
        return sum(entry.tokens for entry in self.entries(view, slot).values())

    def blocks(self, view, slot):
        return sum(1 for key in self.entries(view, slot) if isinstance(key, int))

    def weight(self, block, default):
        return next((entries[block].tokens for entries in self.held.values() if block in entries), default)

    def touch(self, view, slot, chain, block_tokens):
        entries = self.entries(view, slot)
        self.touches += 1
        added = [block for block in chain if block not in entries]
        for block in reversed(chain):
            entries[block] = Entry(self.weight(block, block_tokens), self.touches)
            entries.move_to_end(block)
        self.evict(view, slot)
        return view, slot, self.touches, added

    def undo(self, touch):
        view, slot, number, added = touch
        entries = self.entries(view, slot)
        for block in added:
            if block in entries and entries[block].touched_by == number:
                del entries[block]

    def resize(self, view, slot, name, tokens):
        entries = self.entries(view, slot)
        entries.pop(name, None)
        if tokens:
            entries[name] = Entry(tokens)
            self.evict(view, slot)

    def set_capacity(self, view, slot, tokens):
        self.capacities[view, slot] = tokens
        self.evict(view, slot)

    def drop(self, view, slot):
        self.held.pop((view, slot), None)
        self.capacities.pop((view, slot), None)

    def evict(self, view, slot):
        entries = self.entries(view, slot)
        while (excess := self.tokens(view, slot) - self.capacities.get((view, slot), 24)) > 0:
            oldest = next(iter(entries))
            if isinstance(oldest, int) or entries[oldest].tokens <= excess:
                del entries[oldest]
            else:
                entries[oldest].tokens -= excess

    def match(self, view, chain):
        found = {}
        for (of_view, slot), entries in self.held.items():
            blocks = next((depth for depth, block in enumerate(chain) if block not in entries), len(chain))
            if of_view == view and blocks:
                found[blocks] = found.get(blocks, 0) | 1 << slot
        return found


class Pair:
    """The index and the model, driven together and compared."""

    def __init__(self, evictions_per_call):
        self.index = PrefixIndex(evictions_per_call)
        self.model = NaiveIndex()
        self.numbers = [self.index.add_view(24) for _ in range(VIEWS)]
        self.room = iter(())
        self.touches: list[tuple[Touch, tuple]] = []
        self.occupancies: list[tuple[Occupancy, tuple]] = []
        self.void = set()
        self.chains = {"a", "b"}

    def hidden(self, view, slot):
        return self.index._views[self.numbers[view]].hidden >> slot & 1

    def touch(self, view, slot, text, block_tokens):
        self.chains.add(text)
        chain = chain_of(text)
        touch = self.index.touch(self.numbers[view], slot, chain, block_tokens)
        if not self.hidden(view, slot):
            self.touches.append((touch, self.model.touch(view, slot, chain, block_tokens)))

    def undo(self, number):
        if self.touches:
            touch, modelled = self.touches[number % len(self.touches)]
            self.index.undo(touch)
            self.model.undo(modelled)

    def occupy(self, view, slot, tokens):
        name = view, slot, f"occupancy {len(self.occupancies)}"
        self.occupancies.append((self.index.occupy(self.numbers[view], slot, tokens), name))
        if self.hidden(view, slot):
            self.void.add(name)
        else:
            self.model.resize(*name, tokens)

    def resize(self, number, tokens):
        if self.occupancies:
            occupancy, name = self.occupancies[number % len(self.occupancies)]
            self.index.resize(occupancy, tokens)
            if name not in self.void:
                self.model.resize(*name, tokens)

    def release(self, number):
        if self.occupancies:
            occupancy, name = self.occupancies[number % len(self.occupancies)]
            self.index.release(occupancy)
            if name not in self.void:
                self.model.resize(*name, 0)
            self.void.add(name)

    def set_capacity(self, view, slot, tokens):
        self.index.set_capacity(self.numbers[view], slot, tokens)
        self.model.set_capacity(view, slot, tokens)

    def drop(self, slot, view):
        self.index.drop(slot, view if view is None else self.numbers[view])
        for number in range(VIEWS) if view is None else (view,):
            self.forget(number, slot)

    def forget(self, view, slot):
        self.model.drop(view, slot)
        self.touches = [pair for pair in self.touches if pair[1][:2] != (view, slot)]
        self.void |= {name for _, name in self.occupancies if name[:2] == (view, slot)}

    def make_room(self, steps):
        """A part of the way; the rest comes with another call, or when a view is replaced."""
        for _ in range(steps):
            if next(self.room, "done") == "done":
                self.room = self.index.make_room(2)

    def replace(self, view):
        for _ in itertools.chain(self.room, self.index.make_room(1)):
            pass
        self.room = iter(())
        self.index.remove_view(self.numbers[view])
        self.numbers[view] = self.index.add_view(24)
        for slot in range(SLOTS):
            self.forget(view, slot)

    def sweep(self, budget):
        self.index.sweep(budget)

    def compare(self):
        self.index.check_integrity()
        for view in range(VIEWS):
            for slot in range(SLOTS):
                assert self.index.tokens(self.numbers[view], slot) == self.model.tokens(view, slot)
                assert self.index.blocks(self.numbers[view], slot) == self.model.blocks(view, slot)
            assert self.index.size(self.numbers[view]) == sum(
                self.model.blocks(view, slot) for slot in range(SLOTS)
            )
        for text in self.chains:
            chain = chain_of(text)
            for view, segments in enumerate(self.index.match(chain, self.numbers)):
                blocks = [count for _, count in segments]
                assert blocks == sorted(blocks, reverse=True)
                found = {}
                for mask, count in segments:
                    assert not found.get(count, 0) & mask
                    found[count] = found.get(count, 0) | mask
                assert found == self.model.match(view, chain)


views = st.integers(0, VIEWS - 1)
slots = st.integers(0, SLOTS - 1)
numbers = st.integers(0, 20)
# Prefixes of a few long texts that part from each other at several depths.
long_texts = ["a" * 16, "aaaaaaaabbbbbbbb", "aaaaaaaabbbbcccc", "aaabbbbbbbbbb", "aaabbbbbbccc", "cccccccc"]
texts = st.builds(lambda text, length: text[:length], st.sampled_from(long_texts), st.integers(0, 16))


def operations(block_tokens, sweeps):
    touch = st.tuples(st.just("touch"), views, slots, texts, block_tokens)
    return st.lists(
        st.one_of(
            touch,
            touch,
            touch,
            st.tuples(st.just("undo"), numbers),
            st.tuples(st.just("occupy"), views, slots, st.integers(0, 9)),
            st.tuples(st.just("resize"), numbers, st.integers(0, 20)),
            st.tuples(st.just("release"), numbers),
            st.tuples(st.just("set_capacity"), views, slots, st.integers(0, 40)),
            st.tuples(st.just("drop"), slots, st.one_of(st.none(), views)),
            st.tuples(st.just("make_room"), st.integers(1, 300)),
            st.tuples(st.just("replace"), views),
            sweeps,
        ),
        min_size=15,
        max_size=60,
    )


@settings(deadline=None, max_examples=150)
@given(operations(st.integers(1, 3), st.just(("sweep", 1))), st.sampled_from([0, 1, 256]))
def test_swept_after_every_operation_it_equals_the_naive_model(steps, evictions_per_call):
    pair = Pair(evictions_per_call)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)
        while not pair.index.sweep(3):
            pass
        pair.compare()


@settings(deadline=None, max_examples=150)
@given(operations(st.just(2), st.tuples(st.just("sweep"), st.integers(0, 3))))
def test_matches_never_name_a_dropped_slot_however_much_is_swept(steps):
    pair = Pair(256)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)
        pair.compare()


@pytest.mark.parametrize("count", [5, 6, 7])
def test_many_holders_that_end_inside_one_run_are_told_apart(count):
    pair = Pair(256)
    for slot in range(count):
        pair.set_capacity(0, slot, 40)
        pair.touch(0, slot, "a" * 20, 2)
    for slot in range(count):
        pair.set_capacity(0, slot, 38 - 4 * slot)
        pair.compare()
