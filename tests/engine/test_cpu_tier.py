"""The CPU tier: an LRU whose chains lose their tails first."""

import random
from collections import OrderedDict

import pytest

from epp.engine.cpu_tier import CpuTier


def test_a_match_ends_at_the_first_key_that_is_not_held():
    tier = CpuTier(4)
    tier.write([1, 2, 4])

    assert tier.match([1, 2, 3, 4]) == 2
    assert tier.match([1, 2]) == 2


def test_writing_counts_only_what_is_new():
    tier = CpuTier(4)

    assert tier.write([1, 2]) == 2
    assert tier.write([1, 2, 3]) == 1
    assert tier.write([1, 2, 3, 4], known=2) == 1


def test_the_least_recently_used_makes_room():
    tier = CpuTier(3)
    tier.write([1])
    tier.write([2, 3])
    tier.write([1])
    tier.write([4])

    assert tier.match([1]) == 1
    assert tier.match([2]) == 1
    assert tier.match([3]) == 0


def test_a_chain_loses_its_tail_first():
    tier = CpuTier(3)
    tier.write([1, 2, 3])
    tier.write([9])

    assert tier.match([1, 2, 3]) == 2


def test_what_was_offered_before_and_is_gone_is_not_written_again():
    tier = CpuTier(2)
    tier.write([1, 2])
    tier.write([8, 9])

    assert tier.write([1, 2, 3], known=2) == 1
    assert (tier.match([1]), tier.match([3])) == (0, 1)


def test_writing_nothing_changes_nothing():
    tier = CpuTier(2)

    assert tier.write([]) == 0
    assert len(tier) == 0


def test_what_cannot_fit_is_not_written_but_the_held_part_of_its_chain_is_used():
    tier = CpuTier(2)
    tier.write([7])
    tier.write([8])

    assert tier.write([7, 1, 2, 3], known=1) is None
    assert tier.match([1]) == 0
    tier.write([9])
    assert (tier.match([7]), tier.match([8])) == (1, 0)


def test_a_chain_longer_than_the_tier_keeps_its_head():
    tier = CpuTier(3)
    tier.write([1, 2])

    assert tier.write([1, 2, 3, 4, 5], known=2) == 3
    assert tier.match([1, 2, 3, 4]) == 3


def test_clear_forgets_everything():
    tier = CpuTier(2)
    tier.write([1])
    tier.clear()
    tier.check_integrity()

    assert len(tier) == 0


def test_it_behaves_as_a_plain_lru_whatever_is_written():
    """Against one ordered dictionary, with enough uses that the void ones are forgotten many times."""
    generator = random.Random(7)
    tier, plain = CpuTier(20), OrderedDict()
    for _ in range(3_000):
        family, length = generator.randrange(8), generator.randrange(1, 12)
        chain = [family * 100 + place for place in range(length)]
        known = generator.randrange(length + 1)
        written = [key for place, key in enumerate(chain) if place >= known or key in plain]
        new = sum(key not in plain for key in written)
        assert tier.write(chain, known) == new
        for key in reversed(written):
            plain[key] = None
            plain.move_to_end(key)
        while len(plain) > 20:
            plain.popitem(last=False)
        tier.check_integrity()
        assert set(tier._use_of) == set(plain)
    assert tier._used_keys <= 5 * 21


@pytest.mark.parametrize(
    ("held", "message"),
    [({1: 1, 2: 1}, "holds 2 of 1 blocks"), ({3: 9}, "blocks that no use tells of")],
)
def test_the_integrity_check_sees(held, message):
    tier = CpuTier(1)
    tier._use_of.update(held)

    with pytest.raises(AssertionError, match=message):
        tier.check_integrity()


def test_uses_that_tell_of_nothing_are_forgotten():
    """The same chain is used over and over, and nothing is ever evicted."""
    tier = CpuTier(100)
    for _ in range(100):
        tier.write([1, 2, 3])
    tier.check_integrity()

    assert tier._used_keys <= 4 * 4
    assert tier.match([1, 2, 3]) == 3
