"""The garbage collector of a process that serves."""

import gc

import pytest

from epp.app.collector import calm_collector


@pytest.fixture(autouse=True)
def _collector():
    """As it was before."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_was_built_before_is_not_looked_at_again_and_few_are_at_a_time():
    built = [[]]

    calm_collector()

    assert gc.get_freeze_count() > 0
    assert not any(thing is built for thing in gc.get_objects())
    assert gc.get_threshold() == (1_000, 2, 10_000)
