"""A list of the index is read in steps while it changes, and put back with the same blocks in the same order."""

import itertools
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.prefix import PrefixIndex, drain, saving
from epp.prefix.residency import Bookmark
from epp.prefix.saving import Entries, RunTable, entries_of, restore_entries
from epp.prefix.transfer import dump_index
from tests.prefix.test_index_against_naive_model import (
    SLOTS,
    VIEWS,
    Pair,
    chain_of,
    long_texts,
    operations,
    texts,
)

CAPACITY = 24


@pytest.fixture
def one_a_step(monkeypatch):
    monkeypatch.setattr(saving, "_STEP", 1)
    monkeypatch.setattr(saving, "_STEP_RUNS", 1)


def new_index(views=VIEWS, capacity=CAPACITY):
    index = PrefixIndex()
    for _ in range(views):
        index.add_view(capacity)
    return index


def restored(saved, table, capacities):
    """Another index that holds what was saved: {(view, slot): entries}."""
    index = new_index()
    drain(table.place_all())
    for (view, slot), tokens in capacities.items():
        index.set_capacity(view, slot, tokens)
    for (view, slot), entries in saved.items():
        for _ in restore_entries(index, view, slot, entries, table):
            index.check_integrity()
    index.check_integrity()
    return index


def saved_lists(index, numbers, between=lambda: None):
    table, saved = RunTable(), {}
    for view, number in enumerate(numbers):
        for slot in range(SLOTS):
            residency = index.residency(number, slot)
            if residency is None:
                continue
            steps = entries_of(residency, table)
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    if done.value is not None:
                        saved[view, slot] = done.value
                    break
                between()
    return saved, table


def depths(index, numbers):
    return {
        (view, text, slot): blocks
        for text in long_texts
        for view, segments in enumerate(index.match(chain_of(text), numbers))
        for mask, blocks in segments
        for slot in range(SLOTS)
        if mask >> slot & 1
    }


@settings(deadline=None, max_examples=100)
@given(operations(st.just(2), st.just(("sweep", 1))))
def test_what_is_put_back_matches_and_is_evicted_as_what_was_saved(steps):
    pair = Pair(256)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)
        while not pair.index.sweep(3):
            pass
    saved, table = saved_lists(pair.index, pair.numbers)
    other = restored(saved, table, pair.model.capacities)

    for view, number in enumerate(pair.numbers):
        for slot in range(SLOTS):
            assert other.tokens(view, slot) == pair.index.tokens(number, slot)
            assert other.blocks(view, slot) == pair.index.blocks(number, slot)
    for left in range(CAPACITY, -1, -1):
        assert depths(other, None) == depths(pair.index, pair.numbers)
        for view, slot in itertools.product(range(VIEWS), range(SLOTS)):
            for index, number in ((other, view), (pair.index, pair.numbers[view])):
                index.set_capacity(number, slot, min(left, pair.model.capacities.get((view, slot), CAPACITY)))


@settings(deadline=None, max_examples=100)
@given(
    operations(st.just(2), st.just(("sweep", 1))),
    operations(st.just(2), st.tuples(st.just("sweep"), st.just(2))),
)
def test_an_index_that_changes_while_it_is_saved_stays_whole_and_nothing_is_made_up(first, meanwhile):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saving, "_STEP", 1)
        pair = Pair(256)
        for name, *arguments in first:
            getattr(pair, name)(*arguments)
        ever = depths(pair.index, pair.numbers)
        waiting = iter(meanwhile)

        def go_on():
            step = next(waiting, None)
            if step is not None and step[0] != "replace":
                getattr(pair, step[0])(*step[1:])
            pair.compare()
            for key, blocks in depths(pair.index, pair.numbers).items():
                ever[key] = max(ever.get(key, 0), blocks)

        saved, table = saved_lists(pair.index, pair.numbers, go_on)
    pair.compare()
    other = restored(saved, table, {})
    for key, blocks in depths(other, None).items():
        assert blocks <= ever[key]


def test_an_entry_used_while_its_list_is_read_is_the_newest_of_what_was_read(one_a_step):
    index = new_index(capacity=100)
    for text in ("aa", "bb", "cc"):
        index.touch(0, 0, chain_of(text), 1)
    table = RunTable()
    steps = entries_of(index.residency(0, 0), table)
    next(steps)
    index.touch(0, 0, chain_of("aa"), 1)
    entries = until_done(steps)
    other = restored({(0, 0): entries}, table, {(0, 0): 2})

    assert other.match(chain_of("aa"))[0] == [(1, 2)]


def until_done(steps):
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def test_a_list_that_is_evicted_past_its_bookmark_is_read_from_what_is_left(one_a_step):
    index = new_index(capacity=3)
    for text in ("a", "b", "c"):
        index.touch(0, 0, chain_of(text), 1)
    table = RunTable()
    steps = entries_of(index.residency(0, 0), table)
    next(steps)
    for text in ("x", "y"):
        index.touch(0, 0, chain_of(text), 1)
    index.check_integrity()
    other = restored({(0, 0): until_done(steps)}, table, {(0, 0): 3})

    assert {text for text in "abcxy" if other.match(chain_of(text))[0]} == {"c", "x", "y"}


def test_a_list_that_is_dropped_while_it_is_read_gives_nothing(one_a_step):
    index = new_index(capacity=9)
    for text in ("a", "b", "c"):
        index.touch(0, 0, chain_of(text), 1)
    steps = entries_of(index.residency(0, 0), RunTable())
    next(steps)
    index.drop(0)

    assert until_done(steps) is None
    while not index.sweep(1):
        pass
    index.check_integrity()
    assert not index.busy(0)


def test_a_save_that_is_given_up_leaves_no_bookmark(one_a_step):
    index = new_index(capacity=9)
    for text in ("a", "b"):
        index.touch(0, 0, chain_of(text), 1)
    steps = entries_of(index.residency(0, 0), RunTable())
    next(steps)
    assert any(isinstance(entry, Bookmark) for entry in index.residency(0, 0).entries())
    steps.close()

    assert not any(isinstance(entry, Bookmark) for entry in index.residency(0, 0).entries())


def test_a_dump_made_during_a_save_does_not_show_the_bookmark(one_a_step):
    index = new_index(capacity=9)
    for text in ("a", "b"):
        index.touch(0, 0, chain_of(text), 1)
    whole = list(dump_index(index, {0: "gpu"}, {0: "e"}))
    steps = entries_of(index.residency(0, 0), RunTable())
    next(steps)

    assert list(dump_index(index, {0: "gpu"}, {0: "e"})) == whole


def test_runs_that_lists_share_are_written_once():
    index = new_index(capacity=100)
    for view in (0, 1):
        for slot in (0, 1):
            index.touch(view, slot, chain_of("abc"), 1)
    saved, table = saved_lists(index, [0, 1])

    assert [len(chunk) for chunk in table.hashes] == [3]
    assert {key: list(entries.amounts) for key, entries in saved.items()} == {
        (0, 0): [3],
        (0, 1): [3],
        (1, 0): [3],
        (1, 1): [3],
    }


def test_hashes_are_kept_in_pieces_so_that_no_step_moves_them_all(monkeypatch):
    monkeypatch.setattr(saving, "_CHUNK", 2)
    index = new_index(capacity=100)
    for text in ("abc", "d", "ef"):
        index.touch(0, 0, chain_of(text), 1)
    saved, table = saved_lists(index, [0, 1])
    other = restored(saved, table, {(0, 0): 100})

    assert [len(chunk) for chunk in table.hashes] == [3, 3]
    assert [other.match(chain_of(text))[0] for text in ("abc", "d", "ef")] == [[(1, 3)], [(1, 1)], [(1, 2)]]


def test_each_block_keeps_its_weight():
    index = new_index(capacity=1000)
    index.touch(0, 0, chain_of("ab"), 3)
    index.touch(0, 1, chain_of("abx"), 40)
    saved, table = saved_lists(index, [0, 1])
    other = restored(saved, table, {(0, 0): 1000, (0, 1): 1000})

    assert [other.tokens(0, slot) for slot in (0, 1)] == [index.tokens(0, slot) for slot in (0, 1)] == [6, 46]


def test_what_an_endpoint_already_held_is_older_than_what_comes_back():
    index = new_index(capacity=100)
    index.touch(0, 0, chain_of("old"), 1)
    saved, table = saved_lists(index, [0, 1])
    drain(table.place_all())
    other = new_index(capacity=4)
    other.touch(0, 0, chain_of("new"), 1)
    drain(restore_entries(other, 0, 0, saved[0, 0], table))

    assert other.match(chain_of("old"))[0] == [(1, 3)]
    assert other.match(chain_of("new"))[0] == [(1, 1)]


def numbers(*values):
    return array("q", values)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            RunTable(numbers(0), numbers(1), numbers(1), [array("Q", [7])]),
            "run 0 has a wrong parent or weight",
        ),
        (
            RunTable(numbers(-2), numbers(1), numbers(1), [array("Q", [7])]),
            "run 0 has a wrong parent or weight",
        ),
        (
            RunTable(numbers(-1), numbers(0), numbers(1), [array("Q", [7])]),
            "run 0 has a wrong parent or weight",
        ),
        (RunTable(numbers(-1), numbers(1), numbers(0), [array("Q")]), "run 0 has 0 blocks"),
        (
            RunTable(numbers(-1), numbers(1), numbers(2), [array("Q", [7])]),
            "runs have 2 blocks, the table 1 hashes",
        ),
        (
            RunTable(numbers(-1), numbers(), numbers(1), [array("Q", [7])]),
            "the table's columns differ in length",
        ),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(table, problem):
    with pytest.raises(ValueError, match=problem):
        drain(table.place_all())


@pytest.mark.parametrize(
    ("run", "blocks", "problem"),
    [
        (1, 1, "run 1 is not in the table"),
        (-2, 1, "run -2 is not"),
        (0, 2, "2 blocks of run 0"),
        (0, 0, "0 blocks"),
    ],
)
def test_entries_that_do_not_fit_the_table_are_refused(run, blocks, problem):
    table = RunTable(numbers(-1), numbers(1), numbers(1), [array("Q", [7])])
    drain(table.place_all())
    with pytest.raises(ValueError, match=problem):
        drain(restore_entries(new_index(), 0, 0, Entries(numbers(run), numbers(blocks)), table))


@given(st.lists(texts.filter(bool), min_size=1, max_size=20))
def test_a_step_puts_back_no_more_than_a_few_paths(prompts):
    index = new_index(capacity=10_000)
    for text in prompts:
        index.touch(0, 0, chain_of(text), 1)
    saved, table = saved_lists(index, [0, 1])
    drain(table.place_all())
    other = new_index(capacity=10_000)
    before, most = 0, 0
    for _ in restore_entries(other, 0, 0, saved[0, 0], table):
        most = max(most, other.blocks(0, 0) - before)
        before = other.blocks(0, 0)
    assert most <= saving._STEP_RUNS * 16
