"""Columns: segments, clamping, weighted sums and reading by slot."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.errors import InternalError
from epp.scheduling.columns import CandidateSlots, SegmentColumn, add_weighted, clamped, contenders
from tests.scheduling.builders import endpoint, fleet


def slots_at(*numbers):
    return CandidateSlots(tuple(endpoint(number) for number in numbers))


@pytest.mark.parametrize(
    "numbers, expected, mask",
    [
        ((), [], 0b0),
        ((0, 1, 2), ["a", "b", "c"], 0b111),
        ((2, 3), ["c", "d"], 0b1100),
        ((3,), ["d"], 0b1000),
        ((0, 3), ["a", "d"], 0b1001),
        ((3, 1), ["d", "b"], 0b1010),
    ],
)
def test_read_takes_the_items_at_the_candidates_slots(numbers, expected, mask):
    slots = slots_at(*numbers)

    assert list(slots.read(["a", "b", "c", "d", "e"])) == expected
    assert slots.mask == mask
    assert len(slots) == len(numbers)


def test_segment_column_reads_like_a_list():
    column = SegmentColumn(slots_at(0, 1, 2, 3), 0.25, ((0b0010, 1.0), (0b1000, 0.5)))

    assert list(column) == [0.25, 1.0, 0.25, 0.5]
    assert column[1] == 1.0
    assert column[-1] == 0.5
    assert column[1:3] == [1.0, 0.25]
    assert len(column) == 4
    assert column.index(0.5) == 3


@pytest.mark.parametrize(
    "raw, expected",
    [
        ([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]),
        ([-0.5, 0.5, 1.5], [0.0, 0.5, 1.0]),
        ([0.5, math.nan], [0.5, 0.0]),
        ([math.nan, 0.5], [0.0, 0.5]),
        ([math.inf, -math.inf], [1.0, 0.0]),
        ([-0.1], [0.0]),
        ([1.1], [1.0]),
    ],
)
def test_dense_scores_are_clamped(raw, expected):
    assert clamped(raw, len(raw)) == expected


@pytest.mark.parametrize(
    "base, value, expected",
    [
        (0.5, 1.0, [0.5, 1.0]),
        (-1.0, 2.0, [0.0, 1.0]),
        (math.nan, 0.5, [0.0, 0.5]),
        (0.5, math.nan, [0.5, 0.0]),
    ],
)
def test_segment_scores_are_clamped(base, value, expected):
    assert list(clamped(SegmentColumn(slots_at(0, 1), base, ((0b10, value),)), 2)) == expected


def test_scores_in_range_are_handed_on_as_they_are():
    dense, sparse = [0.0, 1.0], SegmentColumn(slots_at(0, 1), 0.5)

    assert clamped(dense, 2) is dense
    assert clamped(sparse, 2) is sparse


def test_a_column_of_another_length_is_our_own_fault():
    with pytest.raises(InternalError, match="2 scores for 3 candidates"):
        clamped([0.0, 1.0], 3)


def test_weighted_sum_of_dense_and_sparse_columns():
    slots = slots_at(0, 1, 2)
    totals = [1.0, 2.0, 3.0]
    columns = [
        ([1.0, 0.5, 0.0], 2.0),
        (SegmentColumn(slots, 0.5, ((0b001, 1.0),)), 4.0),
        (SegmentColumn(slots, 0.0, ((0b110, 0.25),)), 1.0),
    ]

    assert add_weighted(totals, columns, slots) == [7.0, 5.25, 5.25]
    assert totals == [1.0, 2.0, 3.0]


def test_nothing_to_add_leaves_the_totals():
    assert add_weighted([1.0, 2.0], [], slots_at(0, 1)) == [1.0, 2.0]
    assert add_weighted([1.0, 2.0], [(SegmentColumn(slots_at(0, 1)), 1.0)], slots_at(0, 1)) == [1.0, 2.0]


def test_masks_of_many_endpoints_are_added_everywhere_they_say():
    slots = CandidateSlots(fleet(64))
    even, odd, high = (
        sum(1 << s for s in range(0, 64, 2)),
        sum(1 << s for s in range(1, 64, 2)),
        (1 << 20) - 1 << 40,
    )
    columns = [
        (SegmentColumn(slots, 0.0, ((even, 0.5), (odd, 0.25))), 1.0),
        (SegmentColumn(slots, 0.0, ((high, 1.0),)), 2.0),
    ]

    totals = add_weighted([0.0] * 64, columns, slots)

    assert totals[:4] == [0.5, 0.25, 0.5, 0.25]
    assert totals[39:42] == [0.25, 2.5, 2.25]
    assert totals[59:] == [2.25, 0.5, 0.25, 0.5, 0.25]


scores = st.floats(0.0, 1.0)


@st.composite
def weighted_columns(draw):
    numbers = draw(st.lists(st.integers(0, 90), min_size=1, max_size=60, unique=True))
    slots = slots_at(*numbers)
    columns = []
    for _ in range(draw(st.integers(0, 4))):
        weight = draw(st.floats(0.0, 5.0))
        if draw(st.booleans()):
            columns.append((draw(st.lists(scores, min_size=len(numbers), max_size=len(numbers))), weight))
            continue
        cuts = sorted(draw(st.lists(st.integers(0, 95), max_size=8)))
        segments, low = [], 0
        for cut in cuts:
            segments.append((((1 << cut) - 1) & ~((1 << low) - 1), draw(scores)))
            low = cut
        columns.append((SegmentColumn(slots, draw(scores), tuple(segments)), weight))
    return slots, columns


@given(weighted_columns())
def test_weighted_sum_equals_the_sum_of_each_number(case):
    slots, columns = case
    dense = [list(column) for column, _ in columns]
    naive = [
        sum(weight * column[place] for column, (_, weight) in zip(dense, columns, strict=True))
        for place in range(len(slots))
    ]

    assert add_weighted([0.0] * len(slots), columns, slots) == pytest.approx(naive, abs=1e-9)


@given(weighted_columns())
def test_a_segment_column_has_the_value_of_the_mask_an_endpoint_is_in(case):
    slots, columns = case
    for column, _ in columns:
        if isinstance(column, SegmentColumn):
            expected = [
                next((v for mask, v in column.segments if mask >> e.slot & 1), column.base)
                for e in slots.candidates
            ]
            assert list(column) == expected


def masked(slots, mask, base=0.0):
    return SegmentColumn(slots, base, ((mask, 0.5),)), 1.0


@pytest.mark.parametrize(
    "numbers, mask, expected",
    [((0, 1, 2), 0b101, [0, 2]), ((3, 4, 5), 0b110000, [1, 2]), ((1, 4, 70), 1 << 70 | 1 << 4, [1, 2])],
)
def test_places_of_a_mask_are_those_of_its_slots(numbers, mask, expected):
    assert sorted(slots_at(*numbers).places(mask)) == expected


@pytest.mark.parametrize(
    "leaders, masks, expected",
    [
        ([3, 9], [], [3, 9]),
        ([3, 9], [1 << 5], [3, 5, 9]),
        ([3, 9], [1 << 5 | 1 << 1, 1 << 9], [1, 3, 5, 9]),
        ([3], [1 << 90], [3]),  # no candidate
        ([3], [0xFF], [0, 1, 2, 3, 4, 5, 6, 7]),
        ([3], [0x1FF], None),  # more than an eighth of the candidates
    ],
)
def test_contenders_are_the_leaders_and_those_whose_totals_rise(leaders, masks, expected):
    slots = CandidateSlots(fleet(64))

    assert contenders(leaders, [masked(slots, mask) for mask in masks], slots) == expected


def test_contenders_are_not_known_where_a_column_changes_all_totals():
    slots = CandidateSlots(fleet(64))

    assert contenders([3], [([0.5] * 64, 1.0)], slots) is None
    assert contenders([3], [masked(slots, 1, base=0.25)], slots) is None
