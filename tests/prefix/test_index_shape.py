"""How the tree of runs grows, parts and heals, and that its checks see every kind of damage."""

import pytest

from epp.prefix import PrefixIndex
from epp.prefix.tree import MAX_SHORT

# Chains here are plain numbers: the hundreds tell the branch, so that no number has two predecessors.
TRUNK = list(range(1, 11))


def branch(number, depth, length):
    """The first `depth` blocks of the trunk and then `length` of its own."""
    return TRUNK[:depth] + [number * 100 + at for at in range(length)]


def index_of(views=1, **limits):
    index = PrefixIndex(**limits)
    for _ in range(views):
        index.add_view(10_000)
    return index


def touch(index, slot, chain, view=0, block_tokens=1):
    handle = index.touch(view, slot, chain, block_tokens)
    index.check_integrity()
    return handle


def test_a_growing_conversation_stays_one_run():
    index = index_of(views=2)
    for length in range(1, 11):
        for view in (0, 1):
            touch(index, 0, TRUNK[:length], view)

    assert index.nodes() == 1
    assert index.match(TRUNK) == [[(1, 10)], [(1, 10)]]


def test_a_conversation_that_moves_leaves_the_old_endpoint_with_what_it_had():
    index = index_of(views=2)
    for slot, length in ((0, 4), (1, 9)):
        for view in (0, 1):
            touch(index, slot, TRUNK[:length], view)

    assert index.nodes() == 1
    assert index.match(TRUNK) == [[(2, 9), (1, 4)], [(2, 9), (1, 4)]]


def test_a_run_that_many_hold_is_followed_by_another_and_not_lengthened():
    index = index_of()
    for slot in range(MAX_SHORT + 1):
        touch(index, slot, TRUNK[:4])
    touch(index, 9, TRUNK)

    assert index.nodes() == 2
    assert index.match(TRUNK) == [[(1 << 9, 10), (0b11111, 4)]]


def test_a_branch_cuts_the_run_where_it_leaves_it():
    index = index_of()
    touch(index, 0, TRUNK)
    touch(index, 1, branch(1, 4, 3))

    assert index.nodes() == 3
    assert index.match(TRUNK) == [[(1, 10), (2, 4)]]
    assert index.match(branch(1, 4, 5)) == [[(2, 7), (1, 4)]]


@pytest.mark.parametrize("depth", range(1, 10))
def test_a_chain_that_ends_or_leaves_inside_a_run_is_found_at_every_depth(depth):
    index = index_of()
    touch(index, 0, TRUNK)

    assert index.match(TRUNK[:depth]) == [[(1, depth)]]
    assert index.match(branch(1, depth, 5)) == [[(1, depth)]]


def test_cuts_above_a_cut_keep_the_holders_of_all_pieces():
    index = index_of()
    touch(index, 0, TRUNK)
    for number, depth in enumerate((8, 5, 2), start=1):
        touch(index, number, branch(number, depth, 1))

    assert index.nodes() == 7
    assert index.match(TRUNK) == [[(0b0001, 10), (0b0010, 8), (0b0100, 5), (0b1000, 2)]]


def test_a_piece_held_through_one_below_can_be_touched_alone():
    index = index_of()
    index.set_capacity(0, 0, 12)
    touch(index, 0, TRUNK)
    touch(index, 1, branch(1, 6, 1))
    touch(index, 1, branch(2, 3, 1))
    touch(index, 0, TRUNK[:3])
    touch(index, 0, branch(3, 0, 9))

    assert index.match(TRUNK) == [[(2, 6), (1, 3)]]
    assert index.blocks(0, 0) == 12


def test_eviction_goes_up_through_the_pieces_of_a_cut_run():
    index = index_of()
    touch(index, 0, TRUNK)
    touch(index, 1, branch(1, 6, 1))
    touch(index, 1, branch(2, 3, 1))
    for capacity in range(9, -1, -1):
        index.set_capacity(0, 0, capacity)
        index.check_integrity()
        assert index.blocks(0, 0) == capacity
    assert index.match(TRUNK) == [[(2, 6)]]


def test_runs_end_where_the_longest_holder_ends():
    index = index_of(views=2)
    for view in (0, 1):
        touch(index, 0, TRUNK, view)
    index.set_capacity(0, 0, 7)
    index.set_capacity(0, 0, 5)
    index.set_capacity(1, 0, 8)
    index.check_integrity()

    assert index.nodes() == 1
    assert index.match(TRUNK) == [[(1, 5)], [(1, 8)]]
    index.set_capacity(1, 0, 0)
    index.check_integrity()
    assert index.match(TRUNK) == [[(1, 5)], []]


def test_a_run_with_too_many_ends_in_it_is_cut_at_the_last():
    index = index_of()
    for slot in range(MAX_SHORT + 2):
        touch(index, slot, TRUNK)
    for slot in range(MAX_SHORT + 1):
        index.set_capacity(0, slot, 9 - slot)
        index.check_integrity()

    assert index.nodes() == 2
    assert index.match(TRUNK) == [[(32, 10), (1, 9), (2, 8), (4, 7), (8, 6), (16, 5)]]


def test_a_split_takes_along_the_holders_that_end_above_it():
    index = index_of()
    for slot, blocks in enumerate((10, 7, 5, 3)):
        touch(index, slot, TRUNK[:10])
        index.set_capacity(0, slot, blocks)
    touch(index, 4, branch(1, 5, 2))

    assert index.match(TRUNK) == [[(0b00001, 10), (0b00010, 7), (0b10100, 5), (0b01000, 3)]]


def test_runs_are_joined_again_when_the_branches_between_them_are_gone():
    index = index_of(views=2)
    for view in (0, 1):
        touch(index, 0, TRUNK, view)
        for number, depth in enumerate((3, 6, 8), start=1):
            touch(index, number, branch(number, depth, 4), view)
    for slot in (1, 2, 3):
        index.drop(slot)
    assert index.sweep(99)
    assert index.nodes() == 4
    for view in (0, 1):
        touch(index, 0, TRUNK, view)

    assert index.nodes() == 1
    assert index.match(TRUNK) == [[(1, 10)], [(1, 10)]]


def test_joined_runs_keep_the_run_below_that_reaches_through_them():
    index = index_of()
    for slot in (0, 1):
        touch(index, slot, TRUNK)
    for number, depth in ((2, 8), (3, 5), (4, 2)):
        touch(index, number, branch(number, depth, 1))
    for slot in (3, 4):
        index.drop(slot)
    assert index.sweep(99)
    touch(index, 0, TRUNK[:8])

    assert index.match(TRUNK) == [[(0b011, 10), (0b100, 8)]]
    touch(index, 1, TRUNK[:2])
    assert index.match(TRUNK) == [[(0b011, 10), (0b100, 8)]]


def test_runs_of_different_weight_or_holders_stay_apart():
    index = index_of()
    touch(index, 0, TRUNK[:4], block_tokens=1)
    touch(index, 0, TRUNK[:8], block_tokens=5)
    touch(index, 1, TRUNK[:4])
    touch(index, 0, TRUNK[:8])
    assert index.nodes() == 2
    touch(index, 0, TRUNK, block_tokens=5)
    touch(index, 1, TRUNK)

    assert index.nodes() == 2


def test_runs_that_many_hold_apart_stay_apart():
    index = index_of()
    for slot in range(MAX_SHORT + 1):
        touch(index, slot, TRUNK)
        touch(index, slot, TRUNK[:4])
    touch(index, 0, TRUNK)

    assert index.nodes() == 2


def test_undo_reaches_through_runs_that_were_joined_since():
    index = index_of()
    touch(index, 1, branch(1, 4, 2))
    touch(index, 1, TRUNK)
    handle = touch(index, 0, TRUNK)
    index.drop(1)
    assert index.sweep(99)
    index.undo(handle)
    index.check_integrity()

    assert (index.nodes(), index.tokens(0, 0)) == (0, 0)


def test_different_prefixes_with_one_hash_do_no_harm():
    index = index_of()
    touch(index, 0, [5, 6])
    touch(index, 0, [5, 7])
    touch(index, 0, [1, 2, 3])
    index.touch(0, 0, [5, 1], 1)  # 1 is a root already
    index.touch(0, 0, [9, 2, 8], 1)
    index.touch(0, 0, [9, 4], 1)  # cuts [9, 2, 8] before 2
    index.touch(0, 0, [1, 4], 1)  # cuts [1, 2, 3] before the other 2

    assert index.match([5, 1]) == [[(1, 1)]]
    assert index.match([1, 2, 3]) == [[(1, 3)]]
    assert index.match([9, 2, 8]) == [[(1, 1)]]
    index.drop(0)
    while not index.sweep(1):
        pass
    assert index.nodes() == 0


# -- check_integrity sees damage


def damaged():
    """Two views, a cut run, a short hold, an occupancy, and the parts of it by name."""
    index = index_of(views=2)
    touch(index, 0, TRUNK)
    touch(index, 1, branch(1, 4, 2))
    touch(index, 2, TRUNK, view=1)
    index.set_capacity(1, 2, 8)
    occupancy = index.occupy(0, 0, 3)
    index.check_integrity()
    path, _ = index._tree.walk(TRUNK)
    side = index._tree.walk(branch(1, 4, 2))[0][1]
    residencies = [
        index._views[0].residencies[0],
        index._views[0].residencies[1],
        index._views[1].residencies[2],
    ]
    return index, path, side, residencies, occupancy


def corrupt_children(index, path, side, residencies, occupancy):
    path[0].children = 1


def corrupt_count(index, path, side, residencies, occupancy):
    index._tree.runs += 1


def corrupt_place(index, path, side, residencies, occupancy):
    index._tree.shards[0][12345] = index._tree.shards[0].pop(path[0].hashes[0])


def corrupt_parent(index, path, side, residencies, occupancy):
    del index._tree.shards[0][path[0].hashes[0]]
    index._tree.runs -= 1


def corrupt_hashes(index, path, side, residencies, occupancy):
    path[1].hashes.append(7)


def corrupt_last(index, path, side, residencies, occupancy):
    path[1].last = 7


def corrupt_holder(index, path, side, residencies, occupancy):
    path[1].masks = (0, 0)


def corrupt_short(index, path, side, residencies, occupancy):
    path[1].short = ()


def corrupt_twice_short(index, path, side, residencies, occupancy):
    path[1].short *= 2


def corrupt_owner(index, path, side, residencies, occupancy):
    next(iter(side.holds.values())).run = path[1]


def corrupt_mask(index, path, side, residencies, occupancy):
    path[1].masks = (path[1].masks[0], residencies[2].bit)


def corrupt_start(index, path, side, residencies, occupancy):
    side.start += 1
    side.end += 1
    next(iter(side.holds.values())).hi += 1


def corrupt_mask_above(index, path, side, residencies, occupancy):
    path[0].masks = (path[0].masks[0] & ~residencies[1].bit, path[0].masks[1])


def corrupt_closure(index, path, side, residencies, occupancy):
    path[0].masks = (path[0].masks[0] & ~residencies[0].bit, path[0].masks[1])


def corrupt_bits(index, path, side, residencies, occupancy):
    path[0].masks = (path[0].masks[0] | 1 << 60, path[0].masks[1])


def corrupt_blocks(index, path, side, residencies, occupancy):
    residencies[0].blocks += 1


def corrupt_tokens(index, path, side, residencies, occupancy):
    residencies[0].tokens += 1


def corrupt_capacity(index, path, side, residencies, occupancy):
    residencies[0].capacity_tokens = 1


def corrupt_occupancy(index, path, side, residencies, occupancy):
    occupancy.tokens = 0


def corrupt_links(index, path, side, residencies, occupancy):
    occupancy.older = residencies[0]


def corrupt_order(index, path, side, residencies, occupancy):
    residencies[1].make_newest(side.holds[residencies[1]])


def corrupt_registration(index, path, side, residencies, occupancy):
    del side.holds[residencies[1]]


def corrupt_range(index, path, side, residencies, occupancy):
    hold = side.holds[residencies[1]]
    hold.lo = hold.hi


def corrupt_reach(index, path, side, residencies, occupancy):
    path[0].lower = None


def corrupt_reach_inside(index, path, side, residencies, occupancy):
    path[1].holds[residencies[0]].lo = 2


def corrupt_walked(index, path, side, residencies, occupancy):
    index._tree.walked = (TRUNK, path[:1], 4)


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (corrupt_children, r"the run of blocks \[0, 4\) has 2 children, not 1"),
        (corrupt_count, "4 runs counted, 3 found"),
        (corrupt_place, r"the run of blocks \[0, 4\) is in a wrong place"),
        (corrupt_parent, r"the parent of the run of blocks \[4, \d+\) is not in the table"),
        (corrupt_hashes, r"the run of blocks \[4, 10\) has 7 hashes"),
        (corrupt_last, r"the run of blocks \[4, 10\) has another last hash"),
        (corrupt_holder, r"the run of blocks \[4, 10\) is held in full by nobody"),
        (corrupt_short, r"the run of blocks \[4, 10\) does not know its short holds"),
        (corrupt_twice_short, r"the run of blocks \[4, 10\) has too many short holds"),
        (corrupt_owner, r"the run of blocks \[4, 6\) has a hold of another run"),
        (corrupt_mask, r"a mask of the run of blocks \[4, 10\) is wrong about slot 2"),
        (corrupt_start, r"the run of blocks \[5, 7\) does not begin where its parent ends"),
        (corrupt_closure, r"the run of blocks \[4, 10\) is held without its parent"),
        (corrupt_mask_above, r"a mask of the run of blocks \[0, 4\) is wrong about slot 1"),
        (corrupt_bits, "masks name 6 holders of runs, LRU lists 5"),
        (corrupt_blocks, "slot 0 of column 0 counts 11 blocks and holds 10"),
        (corrupt_tokens, "slot 0 of column 0 counts 14 tokens and holds 13"),
        (corrupt_capacity, "slot 0 of column 0 is beyond its capacity and will not be swept"),
        (corrupt_occupancy, "slot 0 of column 0 has a void occupancy"),
        (corrupt_links, "an LRU list is torn"),
        (corrupt_order, r"slot 1 of column 0 would evict the parent of the run of blocks \[4, 6\) first"),
        (
            corrupt_registration,
            r"slot 1 of column 0 has a hold that the run of blocks \[4, 6\) does not know",
        ),
        (corrupt_range, r"slot 1 of column 0 has a hold of \[6, 6\)"),
        (corrupt_reach, r"slot \d of column \d has a hold that does not reach the run of blocks \[0, 4\)"),
        (
            corrupt_reach_inside,
            r"slot 0 of column 0 has a hold that begins inside the run of blocks \[0, 4\)",
        ),
        (corrupt_walked, "the last walk would end elsewhere now"),
    ],
)
def test_damage_is_found_and_named(corrupt, message):
    index, *parts = damaged()
    corrupt(index, *parts)

    with pytest.raises(ValueError, match=message):
        index.check_integrity()
