"""Admission, plugins' response headers and the limit of requests in flight, through the director."""

import json
from dataclasses import replace

import pytest

from epp.compose import CoreOptions
from epp.director.director import Limits
from epp.director.pick import pick_now
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.errors import NoEndpointsError, SaturatedError
from epp.flow.admission import Objective
from tests.director.core import TIERED, Pool

OBJECTIVES = CoreOptions(
    seed=7, timer=lambda: 0.0, objectives=(Objective("batch", -1), Objective("chat", 10))
)
BATCH = {"x-llm-d-inference-objective": "batch"}
SESSIONS = TIERED.replace("plugins:\n", "plugins:\n- type: session-affinity-scorer\n", 1).replace(
    "  plugins:\n", "  plugins:\n  - {pluginRef: session-affinity-scorer, weight: 10}\n", 1
)


def saturate(pool, now=1.0, *, waiting=5.0):
    for i in range(1, pool.n + 1):
        e = pool.endpoint(i)
        pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(waiting=waiting), now)


def opened(pool, headers=BATCH, now=1.0, **body):
    return pool.open({"model": "m", "prompt": "x" * 64, **body}, headers=headers, now=now)


def test_a_sheddable_request_is_shed_when_every_endpoint_is_saturated():
    pool = Pool(options=OBJECTIVES)
    saturate(pool)
    exchange = opened(pool)

    with pytest.raises(SaturatedError) as caught:
        pool.director.pick(exchange, 1.0)
    pool.director.on_end(exchange, EndReason.REJECTED, 1.0, error=caught.value)

    (record,) = pool.records
    assert (record.status, record.error, record.dropped, record.priority) == (
        429,
        "saturated",
        "rejected-saturated",
        -1,
    )
    assert pool.ledger.total() == 0
    assert pool.director.running.counts() == {}
    assert pool.index.size(0) == 0


@pytest.mark.parametrize(
    "headers", [{}, {"x-llm-d-inference-objective": "chat"}, {"x-llm-d-inference-objective": "other"}]
)
def test_any_other_request_is_let_in_however_full_it_is(headers):
    pool = Pool(options=OBJECTIVES)
    saturate(pool, waiting=500.0)

    assert pool.director.pick(opened(pool, headers), 1.0).slot in range(3)


def test_one_endpoint_with_room_lets_a_sheddable_request_in():
    pool = Pool(options=OBJECTIVES)
    saturate(pool)
    e = pool.endpoint(2)
    pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(waiting=4.0), 1.0)

    assert pool.director.pick(opened(pool), 1.0).slot in range(3)


def test_only_endpoints_of_the_requests_model_count():
    pool = Pool(options=OBJECTIVES)
    saturate(pool)
    for i, model in enumerate(["a", "a", "b"], start=1):
        pool.core.table.set_models(pool.endpoint(i).address, (ModelInfo(model),), 0.0)
    e = pool.endpoint(3)
    pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(waiting=0.0), 1.0)

    assert pool.director.pick(opened(pool, model="b"), 1.0).slot == e.slot
    with pytest.raises(SaturatedError):
        pool.director.pick(opened(pool, model="a"), 1.0)


def test_without_a_ready_endpoint_it_is_503_whatever_the_priority():
    pool = Pool(options=OBJECTIVES)
    saturate(pool)
    for i in range(1, 4):
        pool.core.table.mark_draining(pool.endpoint(i).address)

    with pytest.raises(NoEndpointsError):
        pool.director.pick(opened(pool), 1.0)


def test_a_pick_for_others_is_shed_alike():
    pool = Pool(options=OBJECTIVES)
    saturate(pool)
    body = json.dumps({"model": "m", "prompt": "x"}).encode()

    with pytest.raises(SaturatedError):
        pick_now(pool.director, RequestHead("", "POST", "/v1/completions", BATCH), body, 1.0, commit=False)


def test_a_request_runs_and_is_recorded_under_its_priority():
    pool = Pool(options=OBJECTIVES)
    exchange = opened(pool, {"x-gateway-inference-objective": "chat"})
    pool.director.pick(exchange, 1.0)

    assert pool.director.running.counts() == {("m", "m", "default-flow", 10): 1}
    pool.answer(exchange)
    assert pool.director.running.counts() == {}
    assert pool.records[0].priority == 10


def test_the_detector_of_the_configuration_is_asked():
    config = TIERED + "saturationDetector: {queueDepthThreshold: 50}\n"
    pool = Pool(config=config, options=OBJECTIVES)
    saturate(pool)

    assert pool.director.pick(opened(pool), 1.0).slot in range(3)
    saturate(pool, waiting=50.0)
    with pytest.raises(SaturatedError):
        pool.director.pick(opened(pool), 1.0)


def test_a_detector_of_concurrency_asks_the_ledger():
    config = TIERED.replace(
        "plugins:\n", "plugins:\n- {type: concurrency-detector, parameters: {maxConcurrency: 2}}\n", 1
    )
    config += "flowControl: {saturationDetector: {pluginRef: concurrency-detector}}\n"
    pool = Pool(n=1, config=config, options=OBJECTIVES)
    exchanges = [opened(pool) for _ in range(3)]
    for exchange in exchanges[:2]:
        pool.director.pick(exchange, 1.0)

    with pytest.raises(SaturatedError):
        pool.director.pick(exchanges[2], 1.0)
    pool.answer(exchanges[0])
    assert pool.director.pick(exchanges[2], 1.0).slot == 0


def test_a_staleness_threshold_below_three_scrapes_is_told_at_start():
    config = TIERED + "saturationDetector: {metricsStalenessThreshold: 200ms}\n"

    assert len(Pool(config=config).core.warnings) == 1
    assert Pool(config=TIERED).core.warnings == ()
    fast = replace(OBJECTIVES, scrape_interval_s=0.05)
    assert Pool(config=config, options=fast).core.warnings == ()


def test_the_answer_carries_the_token_of_the_endpoint_that_gave_it():
    pool = Pool(config=SESSIONS)
    exchange = opened(pool, {})
    assert pool.director.response_headers(exchange) == ()
    first = pool.director.pick(exchange, 1.0)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT), 1.0)

    ((name, token),) = pool.director.response_headers(exchange)

    assert second.address != first.address
    again = opened(pool, {name: token}, now=2.0)
    assert pool.director.pick(again, 2.0).address == second.address


def test_without_such_a_plugin_no_header_is_added():
    pool = Pool()
    exchange = opened(pool, {})
    pool.director.pick(exchange, 1.0)

    assert pool.director.response_headers(exchange) == ()


def test_a_scorer_that_filters_runs_as_both():
    config = TIERED.replace(
        "plugins:\n",
        "plugins:\n- {type: context-length-aware, parameters: {label: len, enableFiltering: true}}\n",
        1,
    ).replace("  plugins:\n", "  plugins:\n  - {pluginRef: context-length-aware}\n", 1)
    pool = Pool(config=config)
    specs = [
        replace(spec, labels={"len": told})
        for spec, told in zip(pool.specs, ["0-10", "11-4000", "0-9"], strict=True)
    ]
    pool.core.upkeep.sync_endpoints(specs, 0.0)
    exchange = opened(pool, {}, prompt="x" * 400)

    assert pool.director.pick(exchange, 1.0).address == "10.0.0.2:8000"
    result = exchange.decision.primary
    assert [(e.address, name) for e, name in result.excluded] == [
        ("10.0.0.1:8000", "context-length-aware"),
        ("10.0.0.3:8000", "context-length-aware"),
    ]
    assert "context-length-aware" in [column.scorer for column in result.columns]


def limited(most, n=2):
    options = CoreOptions(seed=7, timer=lambda: 0.0, limits=Limits(inflight_per_endpoint=most))
    return Pool(n=n, options=options)


def test_a_limit_that_nobody_has_reached_leaves_the_candidates_as_they_are():
    pool = limited(2)
    first, _ = pool.send("x" * 64)
    second, _ = pool.send("y" * 64)

    assert first.decision.cycle.full
    assert second.decision.cycle.candidates is first.decision.cycle.candidates


def test_when_every_endpoint_is_at_its_limit_it_is_429_until_one_has_room():
    pool = limited(1)
    exchanges = [pool.send(prompt)[0] for prompt in ("x" * 64, "y" * 64)]
    late = opened(pool, {})

    with pytest.raises(SaturatedError) as caught:
        pool.director.pick(late, 1.0)

    assert (caught.value.status, caught.value.reason, caught.value.retry_after_s) == (
        429,
        "rejected-saturated",
        1,
    )
    pool.answer(exchanges[0])
    assert pool.director.pick(late, 2.0).address == exchanges[0].target.address


def test_a_repeat_does_not_go_to_an_endpoint_that_has_reached_its_limit_since():
    pool = limited(1)
    exchange, target = pool.send("x" * 64)
    pool.send("y" * 64)

    assert pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT), 1.0) is None
    assert exchange.tried == {target.address}
