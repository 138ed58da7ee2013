"""Picks for somebody else who sends the request, and their receipts."""

import dataclasses
import json

import pytest

from epp.compose import CoreOptions
from epp.director.director import Limits
from epp.director.exchange import Exchange
from epp.director.pick import pick_now, pick_steps
from epp.director.receipts import receipt, receipt_line
from epp.director.types import Failure, FailureKind, RequestHead
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.errors import BadRequestError
from epp.scheduling.receipt import Excluded
from tests.director.core import TIERED, Pool, usage

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64
UNCAPPED = TIERED.replace("blockSize: 64", "blockSize: 64, maxPrefixTokensToMatch: 0")
HEAD = RequestHead("", "POST", "/v1/completions")


def body(prompt=PROMPT):
    return json.dumps({"model": "m", "prompt": prompt}).encode()


def test_a_dry_pick_leaves_ledger_index_and_running_counts_as_they_are():
    pool = Pool()
    pick_now(pool.director, HEAD, body(), 1.0, commit=False)

    assert pool.ledger.total() == 0
    assert pool.index.size(0) == 0
    assert pool.director.running.counts() == {}


def test_a_committed_pick_is_noted_in_the_index_alone():
    pool = Pool()
    pick = pick_now(pool.director, HEAD, body(), 1.0, commit=True)

    assert pool.ledger.total() == 0
    assert pool.index.size(0) == 45
    assert pick_now(pool.director, HEAD, body(), 1.0, commit=False).endpoints == pick.endpoints


def test_a_pick_names_as_many_endpoints_as_the_picker_may():
    config = TIERED.replace(
        "plugins:\n- type: queue",
        "plugins:\n- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}\n- type: queue",
        1,
    )
    pool = Pool(config=config)

    assert len(pick_now(pool.director, HEAD, body(), 1.0, commit=False).endpoints) == 2


def test_a_large_prompt_is_hashed_in_steps():
    pool = Pool(config=UNCAPPED)
    steps = pick_steps(pool.director, HEAD, body("x" * 3_000_000), 1.0, commit=False)

    assert sum(1 for _ in steps) >= 2


def test_pick_now_takes_all_steps_at_once():
    pool = Pool(config=UNCAPPED)

    assert len(pick_now(pool.director, HEAD, body("x" * 3_000_000), 1.0, commit=False).endpoints) == 1


def test_a_pick_is_refused_as_the_proxy_would():
    with pytest.raises(BadRequestError):
        pick_now(Pool().director, HEAD, b"{", 1.0, commit=False)


def test_a_request_without_a_prompt_can_be_committed():
    pool = Pool()
    head = RequestHead("", "POST", "/v1/some/route")

    assert pick_now(pool.director, head, b"", 1.0, commit=True).receipt["candidates"][0][
        "predicted_hit_tokens"
    ] == {
        "gpu": None,
        "cpu": None,
    }


def test_a_receipt_predicts_hits_for_every_candidate():
    pool = Pool(n=2)
    held = pool.serve(PROMPT, usage=usage(720)).target.address
    candidates = pick_now(pool.director, HEAD, body(), 2.0, commit=False).receipt["candidates"]

    assert [(c["endpoint"] == held, c["predicted_hit_tokens"]) for c in candidates] == [
        (True, {"gpu": 704, "cpu": 0}),
        (False, {"gpu": 0, "cpu": 0}),
    ]


def test_a_receipt_says_why_endpoints_were_no_candidates():
    pool = Pool(n=6, options=CoreOptions(seed=7, limits=Limits(inflight_per_endpoint=1)))
    for i in range(1, 7):
        models = (ModelInfo("other" if i == 1 else "m"),)
        pool.core.upkeep.on_models(pool.endpoint(i).address, pool.endpoint(i).incarnation, models, 0.5)
    pool.core.table.mark_draining("10.0.0.2:8000")
    asleep = pool.endpoint(3)
    pool.core.upkeep.on_metrics(asleep.address, asleep.incarnation, EndpointMetrics(awake=False), 0.9)
    pool.core.state.health.on_engine_down(pool.endpoint(4), 0.9)
    taken = pool.send(PROMPT)[1].address
    excluded = pick_now(pool.director, HEAD, body(), 1.0, commit=False).receipt["excluded"]

    assert {e["endpoint"]: e["reason"] for e in excluded} == {
        "10.0.0.1:8000": "serves another model",
        "10.0.0.2:8000": "draining",
        "10.0.0.3:8000": "asleep",
        "10.0.0.4:8000": "ejected: engine-down",
        taken: "at its limit of requests in flight",
    }


def test_an_endpoint_that_is_given_no_more_while_it_warms_up_is_told_as_such():
    pool = Pool(n=2)
    pool.send(PROMPT, 100.0)
    pool.send(PROMPT, 100.0)
    pool.core.upkeep.sync_endpoints([*pool.specs, parse_endpoint("http://10.0.0.3:8000")], 100.0)
    while not pool.ledger.requests[pool.endpoint(3).slot]:
        pool.send("another prompt", 100.1)
    excluded = pick_now(pool.director, HEAD, body(), 100.1, commit=False).receipt["excluded"]

    assert excluded == [{"endpoint": "10.0.0.3:8000", "reason": "warming up"}]


def test_the_others_of_a_request_for_a_stored_response_do_not_hold_it():
    pool = Pool(n=2)
    exchange = pool.open({"model": "m", "input": "hi"}, path="/v1/responses")
    holder = pool.director.pick(exchange, 1.0)
    pool.director.on_stored_response(exchange, "resp_1", 1.0)
    follower = pool.open(b"", path="/v1/responses/resp_1", method="GET")
    decision = pool.director.schedule(follower, 1.0)
    [other] = [spec.address for spec in pool.specs if spec.address != holder.address]

    assert receipt(follower, decision.primary.candidates[0])["excluded"] == [
        {"endpoint": other, "reason": "does not hold the stored response"}
    ]


def test_why_an_endpoint_was_no_candidate_is_told_as_it_was_when_it_was_decided():
    pool = Pool(n=2)
    pool.core.state.health.on_engine_down(pool.endpoint(1), 0.9)
    exchange = pool.serve(PROMPT)
    pool.core.state.health.on_response(pool.endpoint(1), 1.5)
    pool.core.table.mark_draining("10.0.0.1:8000")

    assert receipt(exchange, pool.endpoint(2))["excluded"] == [
        {"endpoint": "10.0.0.1:8000", "reason": "ejected: engine-down"}
    ]
    assert list(pool.records[0].ruled_out) == [Excluded("10.0.0.1:8000", "ejected: engine-down")]


def test_the_header_line_is_of_the_endpoint_that_got_the_request():
    pool = Pool(n=2)
    exchange, first = pool.send(PROMPT)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1)
    line = receipt_line(exchange)

    assert line.startswith(f"{second.address} total=")
    assert first.address in line


def test_there_is_no_line_without_a_dispatch():
    pool = Pool(n=1)
    exchange = pool.open({"model": "m", "prompt": PROMPT})

    assert receipt_line(exchange) is None


def test_there_is_no_receipt_without_a_decision():
    pool = Pool(n=1)

    with pytest.raises(ValueError, match="not scheduled"):
        receipt(Exchange(HEAD, 1.0, pool.core.state), pool.endpoint(1))


def test_a_fallback_that_came_back_as_another_pod_has_no_line():
    pool = Pool(n=2)
    exchange, first = pool.send(PROMPT)
    other = next(spec for spec in pool.specs if spec.address != first.address)
    pool.index.touch(0, pool.core.table.pool.by_address[other.address].slot, [1, 2, 3], 16)  # keeps the slot
    again = dataclasses.replace(other, uid="new-pod")
    pool.core.table.sync([*(s for s in pool.specs if s is not other), again], 1.05)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1)

    assert second.address == other.address
    assert receipt_line(exchange) is None
