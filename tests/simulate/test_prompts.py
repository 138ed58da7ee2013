"""Keys of prompts without text, and the workloads that make them."""

import pytest

from epp.simulate.prompts import KeyMaker, Segment, identity
from epp.simulate.shared_prefix import SharedPrefix, Stage, closed_loop, ladder

HEAD = Segment(identity("head"), 100)


def test_prompts_share_the_full_blocks_of_their_common_segments():
    maker = KeyMaker("engine", 16)
    one = maker.keys((HEAD, Segment(identity("one"), 160)))
    other = maker.keys((HEAD, Segment(identity("other"), 150)))

    assert (len(one), len(other)) == (10, 9)
    assert one[:6] == other[:6]  # 96 of the 100 tokens
    assert not set(one[6:]) & set(other[6:])


def test_a_cap_bounds_the_keys():
    assert len(KeyMaker("router", 16, max_blocks=7).keys((HEAD, Segment(identity("one"), 160)))) == 7


def test_makers_of_two_names_have_nothing_in_common():
    assert not set(KeyMaker("a", 16).keys((HEAD,))) & set(KeyMaker("b", 16).keys((HEAD,)))


def test_an_identity_is_the_same_in_every_process():
    assert identity("system", 3) == 7_876_268_028_398_516_623


DATA = SharedPrefix(2, 3, 100, 10, 5, inflation=1.5)


def test_a_closed_loop_reads_the_shuffled_list_over_and_over():
    workload = closed_loop(DATA, requests=14, concurrency=4, seed=1)
    first = [request for _, request in workload.initial()]
    rest = []
    while following := workload.next_after(first[0], 7.0):
        ((when, request),) = following
        assert when == 7.002
        rest.append(request)
    requests = [*first, *rest]

    assert len(requests) == 14
    assert {request.prompt_tokens for request in requests} == {165}
    assert len({request.segments for request in requests}) == 6
    assert requests[0].segments == requests[6].segments == requests[12].segments


def test_without_a_system_prompt_a_prompt_is_its_question():
    workload = closed_loop(SharedPrefix(1, 2, 0, 10, 5), requests=2, concurrency=2, seed=1)

    assert [len(request.segments) for _, request in workload.initial()] == [1, 1]


def test_every_stage_of_a_ladder_begins_the_list_anew_when_the_last_has_drained():
    workload = ladder(DATA, (Stage(2.0, 10.0, 5.0), Stage(4.0, 10.0)), seed=1)
    first = list(workload.initial())
    for _, request in first[:-1]:
        assert workload.next_after(request, 30.0) == ()
    second = list(workload.next_after(first[-1][1], 40.0))

    assert all(0 < when < 10 for when, _ in first)
    assert all(45 < when < 55 for when, _ in second)
    assert first[0][1].segments == second[0][1].segments
    assert 25 < len(second) < 60
    assert {request.stage for _, request in second} == {1}
    assert workload.total == len(first) + len(second)
    assert [workload.next_after(request, 60.0) for _, request in second] == [()] * len(second)


@pytest.mark.parametrize(
    ("field", "value"), [("num_groups", 0), ("question_len", 0), ("system_prompt_len", -1), ("inflation", 0)]
)
def test_bad_parameters_are_named(field, value):
    fields = {
        "num_groups": 1,
        "num_prompts_per_group": 1,
        "system_prompt_len": 1,
        "question_len": 1,
        "output_len": 1,
    }

    with pytest.raises(ValueError, match=field):
        SharedPrefix(**(fields | {field: value}))
