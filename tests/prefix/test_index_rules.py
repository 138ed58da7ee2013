"""The index's rules, one test each. Blocks are four bytes of text and weigh four tokens unless said otherwise."""

import gc

import pytest

from epp.prefix import DEFAULT_CAPACITY_TOKENS, Occupancy, PrefixIndex, chain_seed, drain, hash_chain
from epp.prefix.runs import Hold, Run

E1, E2, E3 = 0b001, 0b010, 0b100  # masks of slots 0, 1 and 2


def chain(text, seed=0):
    return drain(hash_chain(text.encode(), seed, 4, None))


def tiers(*capacities_blocks, **limits):
    index = PrefixIndex(**limits)
    for blocks in capacities_blocks:
        index.add_view(blocks * 4)
    return index


def serve(index, slot, text, view=0, block_tokens=4):
    touch = index.touch(view, slot, chain(text), block_tokens)
    index.check_integrity()
    return touch


def matches(index, text, view=0):
    return index.match(chain(text))[view]


# -- matching


def test_nobody_holds_what_nobody_was_sent():
    index = tiers(9, 9)

    assert index.match(chain("aaaabbbb")) == [[], []]
    assert index.match([]) == [[], []]
    assert index.nodes() == 0


def test_f01_a_phrase_in_the_middle_is_not_a_prefix():
    index = tiers(99)
    serve(index, 0, "What a Good Day!!!!")
    serve(index, 1, "Not a bad day today!")

    assert matches(index, "Not a bad day today! What a Good Day!!!!") == [(E2, 5)]


def test_f02_a_model_name_is_no_block():
    index = tiers(99)
    index.touch(0, 0, chain("aaaabbbb", chain_seed("model")), 4)

    assert index.match(chain("zzzzyyyy", chain_seed("model"))) == [[]]
    assert index.match(chain("aaaacccc", chain_seed("model"))) == [[(E1, 1)]]


def test_f03_f04_salts_and_adapters_do_not_share_blocks():
    index = tiers(99)
    salted = chain("aaaabbbb", chain_seed("m", "", "A"))
    index.touch(0, 0, salted, 4)

    assert index.match(chain("aaaabbbb", chain_seed("m", "", "B"))) == [[]]
    assert index.match(chain("aaaabbbb", chain_seed("m", "A", ""))) == [[]]
    assert index.match(salted) == [[(E1, 2)]]


def test_f05_the_capacity_given_is_the_capacity_used():
    index = tiers(99)
    index.set_capacity(0, 0, 8)
    for text in ("aaaa", "bbbb", "cccc"):
        serve(index, 0, text)

    assert [matches(index, text) for text in ("aaaa", "bbbb", "cccc")] == [[], [(E1, 1)], [(E1, 1)]]


def test_f06_each_view_has_its_own_capacity():
    index = PrefixIndex()
    gpu, cpu = index.add_view(), index.add_view()
    index.set_capacity(gpu, 0, 9_271 * 16)
    index.set_capacity(cpu, 0, 41_000 * 16)
    blocks = list(range(1, 50_001))
    for view in (gpu, cpu):
        index.touch(view, 0, blocks, 16)

    assert (index.blocks(gpu, 0), index.blocks(cpu, 0)) == (9_271, 41_000)
    assert index.match(blocks) == [[(E1, 9_271)], [(E1, 41_000)]]


def test_f07_tiers_are_told_apart_when_the_smaller_one_overflows():
    index = tiers(2, 4)
    for text in ("aaaabbbb", "ccccdddd"):
        for view in (0, 1):
            serve(index, 0, text, view)

    assert index.match(chain("aaaabbbb")) == [[], [(E1, 2)]]
    assert index.match(chain("ccccdddd")) == [[(E1, 2)], [(E1, 2)]]


def test_f09_what_is_lost_is_lost_with_everything_behind_it():
    index = tiers(3)
    serve(index, 0, "aaaabbbbcccc")
    index.set_capacity(0, 0, 4)
    index.check_integrity()

    assert matches(index, "aaaabbbbcccc") == [(E1, 1)]
    assert index.blocks(0, 0) == 1


def test_segments_are_disjoint_and_descend():
    index = tiers(99)
    serve(index, 0, "aaaa")
    serve(index, 1, "aaaabbbbcccc")
    serve(index, 2, "aaaabbbbcccc")
    serve(index, 3, "aaaabbbbdddd")

    assert matches(index, "aaaabbbbccccdddd") == [(E2 | E3, 3), (0b1000, 2), (E1, 1)]
    assert matches(index, "aaaabbbb") == [(0b1110, 2), (E1, 1)]


def test_a_view_sees_only_its_own_touches():
    index = tiers(99, 99)
    serve(index, 0, "aaaabbbbcccc", view=0)
    serve(index, 0, "aaaa", view=1)
    serve(index, 1, "aaaabbbb", view=1)

    assert index.match(chain("aaaabbbbcccc")) == [[(E1, 3)], [(E2, 2), (E1, 1)]]
    assert (index.size(0), index.size(1)) == (3, 3)


def test_a_high_slot_costs_no_low_ones():
    index = tiers(99)
    serve(index, 4000, "aaaabbbb")

    assert matches(index, "aaaabbbb") == [(1 << 4000, 2)]


# -- eviction


def test_tails_are_evicted_before_heads_of_the_same_age():
    index = tiers(4)
    serve(index, 0, "aaaabbbb")
    serve(index, 0, "ccccddddeeee")

    assert matches(index, "aaaabbbb") == [(E1, 1)]
    assert matches(index, "ccccddddeeee") == [(E1, 3)]


def test_a_touch_refreshes_the_whole_path():
    index = tiers(4)
    serve(index, 0, "aaaabbbb")
    serve(index, 0, "ccccdddd")
    serve(index, 0, "aaaabbbb")
    serve(index, 0, "eeee")

    assert matches(index, "aaaabbbb") == [(E1, 2)]
    assert matches(index, "ccccdddd") == [(E1, 1)]


def test_a_touch_of_a_head_leaves_the_tail_as_old_as_it_was():
    index = tiers(4)
    serve(index, 0, "aaaabbbb")
    serve(index, 0, "cccc")
    serve(index, 0, "aaaa")
    serve(index, 0, "ddddeeee")

    assert matches(index, "aaaabbbb") == [(E1, 1)]
    assert matches(index, "cccc") == [(E1, 1)]


def test_a_match_refreshes_nothing():
    index = tiers(2)
    serve(index, 0, "aaaa")
    serve(index, 0, "bbbb")
    matches(index, "aaaa")
    serve(index, 0, "cccc")

    assert matches(index, "aaaa") == []


def test_a_touch_in_one_view_or_slot_refreshes_no_other():
    index = tiers(2, 2)
    for view, slot in ((0, 0), (0, 1), (1, 0)):
        serve(index, slot, "aaaa", view)
        serve(index, slot, "bbbb", view)
    serve(index, 0, "aaaa", view=0)
    for view, slot in ((0, 0), (0, 1), (1, 0)):
        serve(index, slot, "cccc", view)

    assert index.match(chain("aaaa")) == [[(E1, 1)], []]
    assert index.match(chain("bbbb")) == [[(E2, 1)], [(E1, 1)]]


def test_of_a_chain_longer_than_the_capacity_the_head_stays():
    index = tiers(2)
    serve(index, 0, "cccc")
    serve(index, 0, "aaaabbbbccccdddd")

    assert matches(index, "aaaabbbbccccdddd") == [(E1, 2)]
    assert index.tokens(0, 0) == 8


def test_capacity_0_holds_nothing():
    index = tiers(0)
    serve(index, 0, "aaaabbbb")

    assert matches(index, "aaaabbbb") == []
    assert (index.tokens(0, 0), index.nodes()) == (0, 0)


def test_blocks_are_evicted_whole():
    index = tiers(99)
    index.set_capacity(0, 0, 11)
    serve(index, 0, "aaaabbbbcccc")

    assert (index.blocks(0, 0), index.tokens(0, 0)) == (2, 8)


def test_an_unset_capacity_is_the_views_default():
    index = PrefixIndex()
    view = index.add_view()
    index.set_capacity(view, 0, 4)
    serve(index, 0, "aaaabbbb")
    index.set_capacity(view, 0, None)
    index.touch(view, 0, list(range(1, 500_002)), 1)

    assert DEFAULT_CAPACITY_TOKENS == 500_000
    assert index.tokens(view, 0) == 500_000


def test_views_that_share_a_run_evict_from_it_independently():
    index = tiers(3, 3)
    for view in (0, 1):
        serve(index, 0, "aaaabbbbcccc", view)
    serve(index, 0, "dddd", view=0)
    serve(index, 0, "ddddeeee", view=1)

    assert index.match(chain("aaaabbbbcccc")) == [[(E1, 2)], [(E1, 1)]]
    assert index.blocks(0, 0) == index.blocks(1, 0) == 3


# -- capacity that changes, bounded steps


def test_growing_capacity_evicts_nothing():
    index = tiers(2)
    serve(index, 0, "aaaabbbb")
    index.set_capacity(0, 0, 12)
    serve(index, 0, "cccc")

    assert index.blocks(0, 0) == 3


def test_shrinking_evicts_in_bounded_steps_and_sweep_finishes():
    index = tiers(99, evictions_per_call=2)
    for letter in "abcdefgh":
        serve(index, 0, letter * 4)
    index.set_capacity(0, 0, 4)
    index.check_integrity()

    assert index.blocks(0, 0) == 6
    assert index.sweep(3) is False
    assert index.blocks(0, 0) == 3
    assert index.sweep(3) is True
    assert index.blocks(0, 0) == 1
    assert matches(index, "hhhh") == [(E1, 1)]
    assert index.sweep(3) is True


def test_touches_catch_up_with_what_an_earlier_one_left():
    index = tiers(8, evictions_per_call=2)
    for letter in "abcdefgh":
        serve(index, 0, letter * 4)
    serve(index, 0, "".join(letter * 4 for letter in "ijklmno"))

    assert index.blocks(0, 0) == 13
    for letter in "pqrst":
        serve(index, 0, letter * 4)
    assert index.blocks(0, 0) == 8
    assert index.sweep(0) is True


def test_j01_a_million_distinct_prompts_take_no_more_than_the_capacity():
    index = tiers(5, 7)
    for number in range(3000):
        for view in (0, 1):
            index.touch(view, number % 2, chain(f"{number:08}"), 4)
    index.check_integrity()

    assert (index.size(0), index.size(1)) == (10, 14)
    assert index.nodes() <= 14


# -- weights


def test_blocks_keep_the_weight_they_came_with():
    index = tiers(99)
    serve(index, 0, "aaaabbbb", block_tokens=4)
    serve(index, 1, "aaaabbbbcccc", block_tokens=9)

    assert (index.tokens(0, 0), index.tokens(0, 1)) == (8, 17)


def test_a_block_that_came_back_has_the_new_weight():
    index = tiers(99)
    serve(index, 0, "aaaa", block_tokens=4)
    index.drop(0)
    assert index.sweep(9)
    serve(index, 0, "aaaa", block_tokens=5)

    assert index.tokens(0, 0) == 5


@pytest.mark.parametrize(
    ("weight", "tokens", "runs"), [(64, 128, 1), (68, 128, 1), (60, 128, 1), (69, 133, 2), (59, 123, 2)]
)
def test_a_growing_run_takes_blocks_of_about_its_weight_for_its_own(weight, tokens, runs):
    index = tiers(99)
    serve(index, 0, "aaaa", block_tokens=64)
    serve(index, 0, "aaaabbbb", block_tokens=weight)

    assert (index.tokens(0, 0), index.nodes()) == (tokens, runs)


def test_a_block_weighs_at_least_one_token():
    with pytest.raises(ValueError, match="block_tokens must be at least 1, got 0"):
        tiers(9).touch(0, 0, [1], 0)


# -- undo


def test_undo_removes_what_the_touch_added_and_no_more():
    index = tiers(99)
    serve(index, 0, "aaaa")
    touch = serve(index, 0, "aaaabbbbcccc")
    index.undo(touch)
    index.check_integrity()

    assert matches(index, "aaaabbbbcccc") == [(E1, 1)]
    assert index.tokens(0, 0) == 4


def test_undo_spares_other_slots_and_views():
    index = tiers(99, 99)
    touch = serve(index, 0, "aaaabbbb")
    serve(index, 1, "aaaabbbb")
    serve(index, 0, "aaaabbbb", view=1)
    index.undo(touch)
    index.check_integrity()

    assert index.match(chain("aaaabbbb")) == [[(E2, 2)], [(E1, 2)]]


def test_undo_spares_what_was_touched_since():
    index = tiers(99)
    touch = serve(index, 0, "aaaabbbbcccc")
    serve(index, 0, "aaaabbbb")
    index.undo(touch)
    index.check_integrity()

    assert matches(index, "aaaabbbbcccc") == [(E1, 2)]


def test_undo_spares_a_path_that_was_extended_since():
    index = tiers(99)
    touch = serve(index, 0, "aaaabbbb")
    serve(index, 0, "aaaabbbbcccc")
    index.undo(touch)

    assert matches(index, "aaaabbbbcccc") == [(E1, 3)]


def test_undo_is_idempotent():
    index = tiers(99)
    touch = serve(index, 0, "aaaabbbb")
    index.undo(touch)
    index.undo(touch)
    serve(index, 0, "aaaabbbb")
    index.undo(touch)

    assert matches(index, "aaaabbbb") == [(E1, 2)]


def test_undo_after_eviction_or_drop_changes_nothing():
    index = tiers(1)
    evicted = serve(index, 0, "aaaa")
    dropped = serve(index, 0, "bbbb")
    index.undo(evicted)
    assert matches(index, "bbbb") == [(E1, 1)]
    index.drop(0)
    index.undo(dropped)
    index.check_integrity()
    assert index.sweep(1)
    index.undo(dropped)

    assert (index.nodes(), index.busy(0)) == (0, False)


def test_undo_of_a_touch_that_added_nothing_changes_nothing():
    index = tiers(99)
    serve(index, 0, "aaaabbbb")
    index.undo(serve(index, 0, "aaaa"))

    assert matches(index, "aaaabbbb") == [(E1, 2)]


def test_undo_reaches_through_runs_that_were_cut_since():
    index = tiers(99)
    touch = serve(index, 0, "aaaabbbbccccdddd")
    serve(index, 1, "aaaabbbbzzzz")
    serve(index, 1, "aaaayyyy")
    index.undo(touch)
    index.check_integrity()

    assert matches(index, "aaaabbbbccccdddd") == [(E2, 2)]
    assert index.blocks(0, 0) == 0


# -- anonymous runs


def test_generated_tokens_push_prefixes_out():
    index = tiers(3)
    serve(index, 0, "aaaabbbbcccc")
    index.occupy(0, 0, 5)
    index.check_integrity()

    assert matches(index, "aaaabbbbcccc") == [(E1, 1)]
    assert (index.blocks(0, 0), index.tokens(0, 0)) == (1, 9)


def test_an_occupancy_is_evicted_by_the_token_when_its_turn_comes():
    index = tiers(3)
    index.occupy(0, 0, 10)
    serve(index, 0, "aaaa")
    assert index.tokens(0, 0) == 12
    serve(index, 0, "bbbbccccdddd")
    index.check_integrity()

    assert (index.blocks(0, 0), index.tokens(0, 0)) == (3, 12)


def test_resize_makes_an_occupancy_the_newest_and_exactly_as_large():
    index = tiers(3)
    occupancy = index.occupy(0, 0, 4)
    serve(index, 0, "aaaabbbb")
    index.resize(occupancy, 8)
    assert matches(index, "aaaabbbb") == [(E1, 1)]
    serve(index, 0, "ccccdddd")
    assert index.tokens(0, 0) == 12
    index.resize(occupancy, 3)
    index.check_integrity()

    assert matches(index, "ccccdddd") == [(E1, 2)]
    assert index.tokens(0, 0) == 11


def test_resize_brings_an_evicted_occupancy_back():
    index = tiers(2)
    occupancy = index.occupy(0, 0, 4)
    serve(index, 0, "aaaabbbb")
    index.resize(occupancy, 4)

    assert (index.blocks(0, 0), index.tokens(0, 0)) == (1, 8)


def test_release_gives_the_tokens_back_once_and_for_all():
    index = tiers(3)
    occupancy = index.occupy(0, 0, 8)
    index.release(occupancy)
    index.release(occupancy)
    index.resize(occupancy, 8)
    index.check_integrity()

    assert index.tokens(0, 0) == 0


def test_an_occupancy_of_an_evicted_or_dropped_slot_can_be_released_and_resized():
    index = tiers(2)
    evicted, kept = index.occupy(0, 0, 4), index.occupy(0, 0, 8)
    index.release(evicted)
    assert index.tokens(0, 0) == 8
    index.drop(0)
    index.resize(kept, 4)
    index.release(kept)
    index.check_integrity()
    assert index.sweep(1)

    assert (index.tokens(0, 0), index.busy(0)) == (0, False)


@pytest.mark.parametrize("tokens", [-1, -500])
def test_negative_tokens_are_refused(tokens):
    index = tiers(2)
    occupancy = index.occupy(0, 0, 0)
    for call in (
        lambda: index.occupy(0, 0, tokens),
        lambda: index.resize(occupancy, tokens),
        lambda: index.set_capacity(0, 0, tokens),
        lambda: index.add_view(tokens),
    ):
        with pytest.raises(ValueError, match=f"tokens must be at least 0, got {tokens}"):
            call()


# -- slots that end


def test_f17_a_removed_endpoint_leaves_matches_at_once_and_memory_with_the_sweep():
    index = tiers(9, 9)
    serve(index, 0, "aaaabbbb")
    serve(index, 0, "cccc", view=1)
    index.drop(0)
    index.check_integrity()

    assert index.match(chain("aaaabbbb")) == [[], []]
    assert (index.blocks(0, 0), index.tokens(0, 0), index.size(0)) == (0, 0, 0)
    assert index.busy(0)
    assert index.nodes() == 2
    assert index.sweep(1) is False
    assert index.sweep(1) is True
    assert not index.busy(0)
    assert index.nodes() == 0


def test_f18_an_engine_that_lost_its_cache_loses_all_tiers_and_others_none():
    index = tiers(9, 9)
    for view in (0, 1):
        for slot in (0, 1):
            serve(index, slot, "aaaabbbb", view)
    index.drop(0)

    assert index.match(chain("aaaabbbb")) == [[(E2, 2)], [(E2, 2)]]
    assert index.sweep(9)
    index.check_integrity()
    assert index.match(chain("aaaabbbb")) == [[(E2, 2)], [(E2, 2)]]


def test_one_view_of_a_slot_can_be_dropped_alone():
    index = tiers(9, 9)
    for view in (0, 1):
        serve(index, 0, "aaaabbbb", view)
    index.drop(0, view=0)

    assert index.match(chain("aaaabbbb")) == [[], [(E1, 2)]]
    assert index.busy(0)


def test_f19_a_busy_slot_takes_nothing_until_it_is_swept():
    index = tiers(9)
    serve(index, 0, "aaaabbbb")
    index.drop(0)
    void = index.occupy(0, 0, 4)
    serve(index, 0, "cccc")
    assert index.match(chain("cccc")) == [[]]
    assert index.sweep(9)
    index.resize(void, 4)
    assert index.tokens(0, 0) == 0
    serve(index, 0, "dddd")

    assert matches(index, "dddd") == [(E1, 1)]
    assert matches(index, "aaaabbbb") == []


def test_what_an_earlier_owner_of_a_slot_left_does_not_unhide_a_later_one():
    index = tiers(9)
    old_occupancy, old_touch = index.occupy(0, 0, 4), serve(index, 0, "aaaa")
    index.drop(0)
    assert index.sweep(9)
    serve(index, 0, "bbbb")
    index.drop(0)
    index.resize(old_occupancy, 8)
    index.undo(old_touch)
    index.release(old_occupancy)
    index.check_integrity()

    assert index.busy(0)
    assert index.match(chain("bbbb")) == [[]]
    assert index.sweep(1)


def test_evicted_and_dropped_entries_are_no_reference_cycles():
    def alive():
        return sum(isinstance(thing, Run | Hold | Occupancy) for thing in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = alive()
        index = tiers(5, 7)
        for number in range(60):
            for view in (0, 1):
                serve(index, number % 3, "aaaabbbbccccddddeeee"[: 4 + number % 17] + f"{number % 7:04}", view)
                serve(index, number % 3, "aaaabbbbccccddddeeee", view)
            index.occupy(0, number % 3, 3)
        for slot in range(3):
            index.drop(slot)
        assert index.sweep(999)

        assert alive() == before
    finally:
        gc.enable()


def test_the_capacity_of_a_dropped_slot_is_forgotten_but_one_set_since_holds():
    index = tiers(3)
    index.set_capacity(0, 0, 4)
    index.set_capacity(0, 1, 4)
    for slot in (0, 1):
        serve(index, slot, "aaaa")
        index.drop(slot)
    index.set_capacity(0, 1, 8)
    assert index.sweep(9)
    for slot in (0, 1):
        serve(index, slot, "aaaabbbbccccdddd")

    assert matches(index, "aaaabbbbccccdddd") == [(E1, 3), (E2, 2)]


def test_j04_dropping_or_undoing_what_is_not_held_leaves_nothing_behind():
    index = tiers(9)
    index.drop(5)
    index.drop(5)
    index.undo(serve(index, 0, ""))
    index.check_integrity()

    assert not index.busy(5)
    assert index.sweep(1) is True
    assert index.nodes() == 0


# -- views that come and go


def room_for(index, views):
    """Make room; how many steps that took."""
    return sum(1 for _ in index.make_room(views))


def test_an_index_that_holds_blocks_takes_a_view_only_when_room_was_made():
    index = tiers(9)
    serve(index, 0, "aaaa")

    with pytest.raises(ValueError, match="no room for another view: see make_room"):
        index.add_view()
    assert room_for(index, 1) == 256
    assert index.add_view() == 1
    with pytest.raises(ValueError, match="no room for another view: see make_room"):
        index.add_view()


def test_a_view_that_is_added_starts_empty_and_the_others_keep_what_they_hold():
    index = tiers(9, 9)
    serve(index, 0, "aaaabbbb")
    room_for(index, 1)
    added = index.add_view(3 * 4)
    serve(index, 1, "aaaabbbbcccc", added)
    index.check_integrity()

    assert index.match(chain("aaaabbbbcccc")) == [[(E1, 2)], [], [(E2, 3)]]
    assert index.match(chain("aaaabbbbcccc"), [added, 0]) == [[(E2, 3)], [(E1, 2)]]


def test_a_removed_view_matches_nothing_takes_nothing_and_leaves_memory_with_the_sweep():
    index = tiers(9, 9)
    serve(index, 0, "aaaabbbb", 0)
    serve(index, 0, "cccc", 1)
    index.remove_view(0)
    serve(index, 0, "dddd", 0)
    index.check_integrity()

    assert index.match(chain("aaaabbbb")) == [[]]
    assert index.match(chain("cccc"), [0, 1]) == [[], [(E1, 1)]]
    assert (index.blocks(0, 0), index.tokens(0, 0), index.size(0), index.residencies(0)) == (0, 0, 0, [])
    assert index.busy(0)
    assert index.sweep(9)
    assert not index.busy(0)
    assert index.nodes() == 1


def test_a_removed_view_gives_its_room_to_the_next_but_never_its_number():
    index = tiers(9, 9)
    serve(index, 0, "aaaabbbb", 0)
    index.remove_view(0)
    assert index.sweep(9)
    serve(index, 0, "aaaa", 1)
    number = index.add_view()
    serve(index, 1, "aaaabbbb", 0)
    serve(index, 2, "aaaabbbb", number)
    index.check_integrity()

    assert number == 2
    assert index.match(chain("aaaabbbb")) == [[(E1, 1)], [(E3, 2)]]


def test_room_is_made_only_where_none_is():
    index = tiers(9, 9)
    serve(index, 0, "aaaabbbb", 0)
    index.remove_view(1)

    assert room_for(index, 1) == 0
    assert room_for(index, 2) == 256


def test_a_claim_in_a_view_that_is_gone_is_undone_without_harm():
    index = tiers(9, 9)
    touch = serve(index, 0, "aaaabbbb", 0)
    occupancy = index.occupy(0, 0, 4)
    serve(index, 1, "aaaabbbb", 1)
    index.remove_view(0)
    index.undo(touch)
    index.resize(occupancy, 8)
    index.release(occupancy)
    assert index.sweep(9)
    index.check_integrity()

    assert index.match(chain("aaaabbbb")) == [[(E2, 2)]]


def test_a_run_that_is_cut_while_room_is_made_has_the_room_in_whatever_shard_its_tail_lands():
    late, early, other = (1 << 63) + 1, 5, 6  # shards are taken by the high bits, in ascending order
    index = PrefixIndex()
    index.add_view()
    index.touch(0, 0, [late, early], 16)
    making = index.make_room(1)
    next(making)
    index.touch(0, 1, [late, other], 16)  # cuts the run; its tail moves to a shard that was done
    for _ in making:
        pass
    index.add_view()
    index.touch(1, 0, [late, early], 16)

    assert index.match([late, early]) == [[(0b01, 2), (0b10, 1)], [(0b01, 2)]]
    index.check_integrity()
