"""load-aware-scorer against literal tables."""

from dataclasses import replace

import pytest

from epp.scheduling.scorers.load_aware import LoadAwareParameters, LoadAwareScorer
from tests.scheduling.builders import context, cycle, fleet


@pytest.mark.parametrize(
    "threshold, waiting, scores",
    [
        (128, [0.0], [0.5]),
        (128, [0.0, 64.0, 128.0, 500.0], [0.5, 0.25, 0.0, 0.0]),
        (128, [32.0, 32.0], [0.375, 0.375]),
        (10, [1.0, 5.0, 10.0], [0.45, 0.25, 0.0]),
    ],
)
def test_half_of_the_share_of_the_threshold_that_is_free(threshold, waiting, scores):
    plugin = LoadAwareScorer.build("l", LoadAwareParameters(threshold), context())

    assert plugin.score(cycle(fleet(len(waiting), waiting=waiting))) == scores


def test_an_endpoint_without_a_fresh_number_is_not_ahead_of_one_with():
    pool = fleet(3, waiting=[0.0, 96.0, None])

    assert LoadAwareScorer("l").score(cycle(pool)) == [0.5, 0.125, 0.125]
    assert LoadAwareScorer("l").score(cycle((pool[0], pool[2]))) == [0.5, 0.5]
    assert LoadAwareScorer("l").score(cycle((replace(pool[0], fresh=False),))) == [0.5]
