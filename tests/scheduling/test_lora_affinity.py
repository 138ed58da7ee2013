"""lora-affinity-scorer against literal tables."""

from dataclasses import replace

import pytest

from epp.endpoints.types import EndpointMetrics
from epp.scheduling.registry import NoParameters
from epp.scheduling.scorers.lora_affinity import LoraAffinityScorer
from tests.scheduling.builders import context, cycle, endpoint


def scores(*metrics, adapter="a"):
    plugin = LoraAffinityScorer.build("l", NoParameters(), context())
    pool = tuple(endpoint(slot, metrics=told) for slot, told in enumerate(metrics))
    return list(plugin.score(cycle(pool, adapter=adapter)))


def lora(running=(), waiting=(), most=2):
    return EndpointMetrics(
        running_adapters=tuple(running), waiting_adapters=tuple(waiting), max_adapters=most
    )


@pytest.mark.parametrize(
    "told, score",
    [
        (lora(["a"]), 1.0),
        (lora(["a", "b"]), 1.0),
        (lora(["b"]), 0.8),
        (lora(), 0.8),
        (lora(["b"], ["c"]), 0.0),
        (lora(["b"], ["a"]), 0.6),
        (lora(["b", "c"], ["a"]), 0.6),
        (lora(["b", "c"]), 0.0),
        (lora(["b"], ["b"]), 0.8),
        (lora([], [], 0), 0.0),
    ],
)
def test_loaded_before_room_before_waiting_before_full(told, score):
    assert scores(told) == [score]


def test_a_request_for_a_base_model_prefers_nobody():
    assert scores(lora(["a"]), lora(["b", "c"]), None, adapter="") == [1.0, 1.0, 1.0]


def test_an_endpoint_that_tells_nothing_is_not_ahead_of_one_that_does():
    assert scores(lora(["a"]), lora(["b"]), EndpointMetrics(), None) == [1.0, 0.8, 0.5, 0.5]
    assert scores(lora(["b", "c"]), EndpointMetrics()) == [0.0, 0.0]
    assert scores(EndpointMetrics(), None) == [0.5, 0.5]


def test_stale_metrics_tell_nothing():
    stale = replace(endpoint(0, metrics=lora(["a"])), fresh=False)

    assert list(LoraAffinityScorer("l").score(cycle((stale,), adapter="a"))) == [0.5]


def test_columns_are_computed_once_for_the_same_candidates_and_adapter():
    plugin = LoraAffinityScorer("l")
    pool = (endpoint(0, metrics=lora(["a"])), endpoint(1, metrics=lora(["b"])))

    assert plugin.score(cycle(pool, adapter="a")) is plugin.score(cycle(pool, adapter="a"))
    assert list(plugin.score(cycle(pool, adapter="b"))) == [0.8, 1.0]
