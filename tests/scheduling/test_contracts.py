"""What cycles and matches compute for plugins."""

from epp.scheduling.contracts import NO_MATCH, Narrowing, PrefixMatch, ProfileResult
from tests.scheduling.builders import context, cycle, fleet


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


def test_unless_composition_tells_ages_no_endpoint_was_ever_scraped():
    assert context().scraped_at("10.0.0.1:8000") is None


def test_excluded_endpoints_carry_the_filter_that_dropped_them():
    pool = fleet(4)
    steps = (Narrowing("first", pool, pool[1:]), Narrowing("second", pool[1:], (pool[2],)))
    result = ProfileResult("p", (pool[2],), steps, (), [0.0], iter(()))

    assert [(e.slot, name) for e, name in result.excluded] == [(0, "first"), (1, "second"), (3, "second")]
