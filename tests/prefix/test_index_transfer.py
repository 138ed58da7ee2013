"""A dumped index, loaded elsewhere, matches the same and evicts in the same order."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.prefix import PrefixIndex
from epp.prefix.transfer import IndexDump, dump_index, load_index

VIEWS = {0: "gpu", 1: "cpu"}
ENDPOINTS = {0: "a:1", 1: "b:1", 2: "c:1"}


def new_index():
    index = PrefixIndex()
    for _ in VIEWS:
        index.add_view(default_tokens=200)
    return index


def copied(index):
    text = b"".join(dump_index(index, VIEWS, ENDPOINTS))
    other = new_index()
    slots = {name: slot for slot, name in ENDPOINTS.items()}
    load_index(other, msgspec.json.decode(text, type=IndexDump), {"gpu": 0, "cpu": 1}, slots)
    other.check_integrity()
    return other


def chain(*path):
    """A chain as hashes would be: each value stands for the whole path up to it."""
    hashes, at = [], 0
    for step in path:
        at = at * 8 + step + 1
        hashes.append(at)
    return hashes


def test_a_dump_is_json_with_runs_written_once():
    index = new_index()
    index.touch(0, 0, [1, 2, 3], 16)
    index.touch(0, 1, [1, 2, 3], 16)
    index.occupy(0, 1, 50)

    dump = json.loads(b"".join(dump_index(index, VIEWS, ENDPOINTS)))

    assert dump == {
        "views": ["gpu", "cpu"],
        "held": [
            {
                "view": "gpu",
                "endpoint": "a:1",
                "runs": [[-1, 16, "AQAAAAAAAAACAAAAAAAAAAMAAAAAAAAA"]],
                "lru": [[0, 3]],
            },
            {"view": "gpu", "endpoint": "b:1", "runs": [], "lru": [[0, 3], [-1, 50]]},
        ],
    }


def test_an_endpoint_without_a_name_is_left_out():
    index = new_index()
    index.touch(0, 5, [1, 2], 16)

    assert json.loads(b"".join(dump_index(index, VIEWS, ENDPOINTS)))["held"] == []


def test_a_view_or_endpoint_that_the_reader_does_not_have_is_left_out():
    index = new_index()
    index.touch(0, 0, [1], 16)
    index.touch(1, 0, [1], 16)
    index.touch(1, 1, [1], 16)
    dump = msgspec.json.decode(b"".join(dump_index(index, VIEWS, ENDPOINTS)), type=IndexDump)
    other = PrefixIndex()
    other.add_view()
    load_index(other, dump, {"cpu": 0}, {"b:1": 0})

    assert other.match([1]) == [[(1, 1)]]


@pytest.mark.parametrize("parent", [0, 3])
def test_a_run_that_names_a_parent_behind_it_is_refused(parent):
    held = {"view": "gpu", "endpoint": "a:1", "runs": [[parent, 16, "AQAAAAAAAAA="]], "lru": [[0, 1]]}
    dump = msgspec.convert({"views": ["gpu"], "held": [held]}, type=IndexDump)

    with pytest.raises(ValueError, match="run 0 is not in the dump"):
        load_index(new_index(), dump, {"gpu": 0}, {"a:1": 0})


def test_a_number_without_a_run_is_refused():
    held = {"view": "gpu", "endpoint": "a:1", "runs": [], "lru": [[0, 1]]}
    dump = msgspec.convert({"views": ["gpu"], "held": [held]}, type=IndexDump)

    with pytest.raises(ValueError, match="run 0 is not in the dump"):
        load_index(new_index(), dump, {"gpu": 0}, {"a:1": 0})


PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
# No two of them alike: blocks appended to a run take its weight where that is about theirs.
WEIGHTS = st.sampled_from([1, 3, 7, 40])
TOUCHES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), PATHS, WEIGHTS), max_size=25)


@settings(deadline=None)
@given(TOUCHES, st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), PATHS), max_size=8))
def test_the_copy_matches_the_same_and_goes_on_the_same(touches, later):
    index = new_index()
    for view, slot, path, weight in touches:
        index.touch(view, slot, chain(*path), weight)
        if weight > 30:
            index.occupy(view, slot, weight)
    other = copied(index)

    for view, slot, path in later:
        index.touch(view, slot, chain(*path), 16)
        other.touch(view, slot, chain(*path), 16)
    for _, _, path, _ in touches:
        assert other.match(chain(*path)) == index.match(chain(*path))
    for view in (0, 1):
        for slot in ENDPOINTS:
            assert other.tokens(view, slot) == index.tokens(view, slot)


def test_big_endian_machines_write_the_same_bytes(monkeypatch):
    from array import array

    from epp.prefix import transfer

    monkeypatch.setattr(transfer.sys, "byteorder", "big")

    assert transfer._little_endian(array("Q", [1])).tobytes() == array("Q", [1 << 56]).tobytes()
