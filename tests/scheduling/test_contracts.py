"""What cycles and matches compute for plugins."""

from epp.scheduling.contracts import NO_MATCH, PrefixMatch
from tests.scheduling.builders import cycle, fleet


def test_match_tells_the_blocks_of_an_endpoint():
    match = PrefixMatch(((0b001, 3), (0b110, 7)), 10, 64.0)

    assert [match.blocks(slot) for slot in range(4)] == [3, 7, 7, 0]
    assert NO_MATCH.blocks(0) == 0


def test_slots_are_computed_once_for_the_same_candidates():
    c = cycle(fleet(3))

    assert c.slots() is c.slots()


def test_slots_follow_the_candidates():
    c = cycle(fleet(3))
    before = c.slots()
    c.candidates = c.candidates[1:]

    assert before.mask == 0b111
    assert c.slots().mask == 0b110
