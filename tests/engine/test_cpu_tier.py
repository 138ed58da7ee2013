"""The CPU tier: an LRU whose chains lose their tails first."""

import pytest

from epp.engine.cpu_tier import CpuTier


def test_a_match_ends_at_the_first_key_that_is_not_held():
    tier = CpuTier(4)
    tier.store([1, 2, 4])

    assert tier.match([1, 2, 3, 4]) == 2
    assert tier.match([1, 2]) == 2


def test_storing_counts_only_what_is_new():
    tier = CpuTier(4)

    assert tier.store([1, 2]) == 2
    assert tier.store([1, 2, 3, 3]) == 1


def test_the_least_recently_used_makes_room():
    tier = CpuTier(3)
    tier.store([1, 2, 3])
    tier.touch([1])
    tier.store([4])

    assert tier.match([1]) == 1
    assert tier.match([2]) == 0


def test_a_touched_chain_loses_its_tail_first():
    tier = CpuTier(3)
    tier.store([1, 2, 3])
    tier.touch([1, 2, 3])
    tier.store([9])

    assert tier.match([1, 2, 3]) == 2


def test_touching_what_is_not_held_does_nothing():
    tier = CpuTier(2)
    tier.touch([1])

    assert len(tier) == 0


def test_a_chain_that_cannot_fit_is_not_stored():
    tier = CpuTier(2)
    tier.store([7])

    assert tier.store([1, 2, 3]) is None
    assert tier.match([7]) == 1


def test_clear_forgets_everything():
    tier = CpuTier(2)
    tier.store([1])
    tier.clear()

    assert len(tier) == 0


def test_the_integrity_check_sees_too_many_blocks():
    tier = CpuTier(1)
    tier._held.update({1: None, 2: None})

    with pytest.raises(AssertionError, match="holds 2 of 1 blocks"):
        tier.check_integrity()
