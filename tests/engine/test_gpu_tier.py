"""The GPU tier: references, LRU of freed blocks, duplicates."""

import pytest

from epp.engine.gpu_tier import GpuTier


def filled(capacity, keys):
    """A tier whose first blocks hold `keys` and are free, freed tail first."""
    tier = GpuTier(capacity)
    blocks = tier.allocate(len(keys))
    for block, key in zip(blocks, keys, strict=True):
        tier.register([block], [key])
    tier.release(reversed(blocks))
    return tier


def test_a_freed_block_stays_matchable():
    assert filled(4, [10, 11]).match([10, 11, 12]) == [0, 1]


def test_a_match_ends_at_the_first_key_that_is_not_held():
    assert filled(4, [10, 12]).match([10, 11, 12]) == [0]


def test_blocks_are_evicted_in_the_order_they_were_freed():
    tier = filled(4, [10, 11, 12, 13])

    assert tier.allocate(2) == [3, 2]
    assert tier.match([10, 11, 12, 13]) == [0, 1]


def test_a_referenced_block_is_not_given_away():
    tier = filled(4, [10, 11])
    tier.reference([0])

    assert tier.free_blocks == 3
    assert tier.count_free([0, 1]) == 1
    assert tier.allocate(3) == [2, 3, 1]


def test_a_block_shared_by_two_is_freed_by_the_last():
    tier = filled(4, [10])
    tier.reference([0])
    tier.reference([0])
    tier.release([0])
    assert tier.free_blocks == 3

    tier.release([0])
    assert tier.free_blocks == 4


def test_a_key_held_twice_survives_the_eviction_of_one_block():
    tier = filled(3, [10, 10])

    assert tier.allocate(2) == [2, 1]
    assert tier.match([10]) == [0]


def test_of_three_blocks_with_one_key_the_oldest_is_hit_until_it_is_evicted():
    tier = filled(3, [10, 10, 10])
    assert tier.match([10]) == [0]
    tier.reference([1, 2])

    assert tier.allocate(1) == [0]
    assert tier.match([10]) == [1]
    tier.check_integrity([1, 1, 1])


def test_several_blocks_are_registered_at_once():
    tier = GpuTier(3)
    tier.register(tier.allocate(3), [10, 11, 12])

    assert tier.match([10, 11, 12]) == [0, 1, 2]


def test_clear_forgets_keys_and_keeps_blocks():
    tier = filled(3, [10])
    tier.clear()

    assert tier.match([10]) == []
    assert tier.free_blocks == 3
    tier.check_integrity([0, 0, 0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tier: tier._state.__setitem__(0, 1), "reference counts differ"),
        (lambda tier: tier._releases.pop(), "the releases do not tell"),
        (lambda tier: tier._key_of.__setitem__(0, 99), "do not map to each other"),
        (lambda tier: tier._doubles.__setitem__(99, {}), "a key without blocks"),
    ],
)
def test_the_integrity_check_sees(spoil, message):
    tier = filled(3, [10])
    spoil(tier)

    with pytest.raises(AssertionError, match=message):
        tier.check_integrity([0, 0, 0])


def test_of_keys_registered_together_some_may_be_held_already():
    tier = filled(4, [10])
    tier.register(tier.allocate(2), [10, 11])

    assert tier.match([10, 11]) == [0, 2]
    tier.check_integrity([0, 1, 1, 0])


def test_releases_that_tell_of_nothing_are_forgotten():
    """The same block is hit and freed over and over, and nothing is ever allocated."""
    tier = filled(4, [10, 11])
    for _ in range(100):
        tier.reference([0])
        tier.release([0])
    tier.check_integrity([0, 0, 0, 0])

    assert tier._released <= 4 * 4
    assert tier.allocate(4) == [2, 3, 1, 0]
