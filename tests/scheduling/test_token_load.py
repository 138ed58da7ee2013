"""token-load-scorer against literal tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.contracts import PrefixMatch
from epp.scheduling.scorers.token_load import TokenLoadParameters, TokenLoadScorer
from tests.scheduling.builders import context, cycle, fleet, ledger


def scores(tokens, prompt=0, matches=None, threshold=1000, pool=None):
    plugin = TokenLoadScorer.build("t", TokenLoadParameters(threshold), context())
    candidates = pool or fleet(len(tokens))
    return list(
        plugin.score(cycle(candidates, ledger=ledger(tokens=tokens), prompt_tokens=prompt, matches=matches))
    )


@pytest.mark.parametrize(
    "tokens, prompt, expected",
    [
        ([0], 0, [1.0]),
        ([0, 250, 1000, 5000], 0, [1.0, 0.75, 0.0, 0.0]),
        ([0, 250, 1000], 250, [0.75, 0.5, 0.0]),
        ([0, 0], 1000, [0.0, 0.0]),
    ],
)
def test_tokens_in_flight_and_of_this_request_against_the_threshold(tokens, prompt, expected):
    assert scores(tokens, prompt) == expected


def test_what_an_endpoint_holds_of_the_request_does_not_count():
    match = {"gpu": PrefixMatch(((0b001, 4), (0b010, 2)), 8, 64.0)}

    assert scores([0, 0, 0], 500, match) == [0.756, 0.628, 0.5]


def test_the_longest_match_of_all_producers_counts():
    matches = {
        "gpu": PrefixMatch(((0b01, 1),), 4, 100.0),
        "cpu": PrefixMatch(((0b11, 3),), 4, 100.0),
        "none": PrefixMatch((), 4, 100.0),
    }

    assert scores([0, 0], 400, matches) == [0.9, 0.9]
    assert scores([0, 0], 400, {**matches, "cpu": PrefixMatch(((0b10, 3),), 4, 100.0)}) == [0.7, 0.9]


def test_a_match_longer_than_the_estimated_prompt_is_all_of_it():
    assert scores([100, 0], 200, {"gpu": PrefixMatch(((0b01, 9),), 9, 64.0)}) == [0.9, 0.8]


def test_candidates_with_gaps_read_their_own_numbers():
    pool = fleet(4)
    matches = {"gpu": PrefixMatch(((0b1010, 1),), 4, 100.0)}

    assert scores([10, 20, 30, 40], 100, matches, pool=(pool[0], pool[3])) == [0.89, 0.96]


def test_the_default_threshold_is_128_prompts_of_32_k():
    assert TokenLoadParameters().queue_threshold_tokens == 128 * 32768


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=12),
    st.integers(0, 5000),
    st.dictionaries(st.integers(0, 11), st.integers(1, 100)),
)
def test_more_to_compute_never_scores_higher(tokens, prompt, held):
    segments = tuple((1 << slot, blocks) for slot, blocks in held.items())
    found = scores(tokens, prompt, {"gpu": PrefixMatch(segments, 100, 16.0)})

    work = [t + max(0, prompt - held.get(slot, 0) * 16) for slot, t in enumerate(tokens)]
    assert all(0.0 <= score <= 1.0 for score in found)
    assert [score for _, score in sorted(zip(work, found, strict=True))] == sorted(found, reverse=True)
