"""Chains are folded and unfolded: nothing is lost, and what prompts share is written once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.recording.events import Folded
from epp.recording.folding import Folder, Unfolder

LAST = 2**64 - 1


def chain(*lengths):
    """A chain that shares its beginning with all that have the same first lengths, and nothing else."""
    hashes, last = [], 1
    for length in lengths:
        for block in range(length):
            last = (last * 6_364_136_223_846_793_005 + 1_000 * length + block + 1) & LAST
            hashes.append(last)
    return hashes


def test_a_chain_that_goes_on_an_earlier_one_is_written_from_where_they_part():
    folder = Folder()
    folder.fold(chain(100))

    folded = folder.fold(chain(100, 7))

    assert (folded.like, folded.common, len(folded.rest)) == (0, 100, 7 * 8)


def test_a_chain_that_is_shorter_than_an_earlier_one_is_written_whole_by_reference():
    folder = Folder()
    folder.fold(chain(100))

    assert folder.fold(chain(100)[:33]) == Folded(0, 33, b"")


def test_the_latest_of_those_that_begin_alike_is_meant():
    folder = Folder()
    for turns in (1, 2, 3):
        folder.fold(chain(40, *[20] * turns))

    assert (folder.fold(chain(40, 20, 20, 20, 20)).like, folder.fold(chain(40, 5)).common) == (2, 40)


def test_an_empty_chain_is_like_none():
    assert Folder().fold([]) == Folded(0, 0, b"")
    assert Unfolder().unfold(Folded(0, 0, b"")) == []


def test_the_largest_hash_is_kept():
    assert Unfolder().unfold(Folder().fold([0, LAST])) == [0, LAST]


@given(st.lists(st.lists(st.integers(1, 40), max_size=5), max_size=30), st.sampled_from([1, 100, 10_000]))
def test_what_is_unfolded_is_what_was_folded_however_much_is_remembered(shapes, most):
    folder, unfolder = Folder(most), Unfolder(most)
    chains = [chain(*shape) for shape in shapes]

    assert [unfolder.unfold(folder.fold(hashes)) for hashes in chains] == chains


def test_what_was_forgotten_leaves_nothing_behind():
    folder = Folder(50)
    for n in range(40):
        folder.fold(chain(30 + n))

    assert len(folder._chains) == 0
    assert folder._marks == {}


def test_a_reference_to_a_chain_that_was_never_there_is_a_fault():
    with pytest.raises(ValueError, match="begins like chain 3"):
        Unfolder().unfold(Folded(3, 5, b""))
