"""context-length-aware against literal tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.scheduling.contracts import Filter
from epp.scheduling.scorers.context_length_aware import (
    ContextLengthAwareParameters,
    ContextLengthAwareScorer,
)
from tests.scheduling.builders import context, cycle, labelled

LABEL = "llm-d.ai/context-length-range"


def pool_of(*ranges):
    return labelled(*({} if told is None else {LABEL: told} for told in ranges))


def plugin(*, filtering=False, label=LABEL):
    return ContextLengthAwareScorer.build("c", ContextLengthAwareParameters(label, filtering), context())


def scores(length, *ranges):
    return list(plugin().score(cycle(pool_of(*ranges), prompt_tokens=length)))


@pytest.mark.parametrize(
    "length, told, score",
    [
        (500, "0-1000", 0.3 + 0.7 * (0.7 / 1.1 + 0.3 * 0.5)),
        (1, "0-10000", 0.3 + 0.7 * (0.7 / 2 + 0.3 * 0.9999)),
        (10000, "0-10000", 0.545),
        (700, "700-700", 1.0),
        (700, " 600 - 800 ", 0.3 + 0.7 * (0.7 / 1.02 + 0.3 * 0.5)),
        (2000, "0-1000", 0.15),
        (1000, "2000-3000", 0.15),
        (1001, "0-1000", 0.3 / 1.001),
        (500, None, 0.5),
        (500, "", 0.0),
        (500, "0..1000", 0.0),
        (500, "1000-0", 0.0),
        (500, "-1-1000", 0.0),
        (500, "0-1000-2000", 0.0),
    ],
)
def test_score_of_a_label(length, told, score):
    assert scores(length, told) == [pytest.approx(score)]


def test_a_prompt_that_is_not_visible_prefers_nobody():
    assert scores(0, "0-1000", None, "nonsense") == [0.5, 0.5, 0.5]


def test_the_label_can_be_another():
    pool = labelled({"len": "0-1000"}, {LABEL: "0-1000"})

    assert list(plugin(label="len").score(cycle(pool, prompt_tokens=2000))) == [pytest.approx(0.15), 0.5]


def test_by_default_it_only_scores():
    assert not isinstance(plugin(), Filter)


def test_with_filtering_endpoints_of_other_lengths_are_dropped():
    filtering = plugin(filtering=True)
    pool = pool_of("0-1000", "1001-4000", None, "nonsense", "500-500")

    assert isinstance(filtering, Filter)
    assert [e.slot for e in filtering.filter(cycle(pool, prompt_tokens=500))] == [0, 2, 4]
    assert [e.slot for e in filtering.filter(cycle(pool, prompt_tokens=1001))] == [1, 2]
    assert [e.slot for e in filtering.filter(cycle(pool, prompt_tokens=0))] == [0, 1, 2, 3, 4]
    assert len(list(filtering.score(cycle(pool, prompt_tokens=500)))) == 5


@given(st.integers(1, 200_000), st.integers(0, 100_000), st.integers(0, 100_000))
def test_inside_always_beats_outside(length, first, width):
    (score,) = scores(length, f"{first}-{first + width}")

    assert (score > 0.3) == (first <= length <= first + width)
    assert 0.0 < score <= 1.0
