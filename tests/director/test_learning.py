"""What plugins that learn from answers are told, and a prompt that enters as hashes."""

import json

import pytest

from epp.director.chains import PromptChains, first_chain
from epp.director.hashed import prepare_hashed
from epp.director.pick import pick_now
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.endpoints.types import ModelInfo
from epp.errors import ModelNotFoundError
from epp.request.types import Api, InferenceRequest
from tests.director.core import Pool, usage
from tests.director.test_shadow import ShadowPool

COST = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: ttft-cost-scorer
- {type: approx-prefix-cache-producer, name: gpu, parameters: {blockSize: 64, tier: gpu}}
- {type: approx-prefix-cache-producer, name: cpu, parameters: {blockSize: 128, tier: cpu}}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: ttft-cost-scorer, weight: 1}
"""
PROMPT = "word " * 2_000


@pytest.fixture
def pool():
    return Pool(config=COST)


def scorer(pool):
    ((plugin, _),) = pool.core.state.scheduler.profiles["default"].scorers
    return plugin


def flying(pool):
    return {slot: len(known.flights) for slot, known in scorer(pool)._endpoints.items()}


def test_a_2xx_answer_teaches_and_its_end_clears(pool):
    exchange, target = pool.send(PROMPT, stream=True)
    assert flying(pool) == {target.slot: 1}

    pool.director.on_response_head(exchange, 200, 1.3)
    pool.director.on_first_byte(exchange, 1.3)
    learned = scorer(pool)._learned["m"]
    assert learned.latency.samples == 1

    pool.director.on_end(exchange, EndReason.COMPLETE, 2.0, usage=usage(2_000, completion=56))
    assert learned.output_tokens == 236.0
    assert flying(pool) == {target.slot: 0}


def test_an_error_answer_teaches_nothing(pool):
    exchange, target = pool.send(PROMPT, stream=True)
    pool.director.on_response_head(exchange, 500, 1.3)
    pool.director.on_first_byte(exchange, 1.3)
    pool.director.on_end(exchange, EndReason.COMPLETE, 2.0)

    assert scorer(pool)._learned["m"].latency.samples == 0
    assert flying(pool) == {target.slot: 0}


def test_a_request_that_goes_elsewhere_leaves_the_first_endpoint(pool):
    exchange, first = pool.send(PROMPT)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1)

    assert flying(pool)[first.slot] == 0
    assert second.slot != first.slot


def test_a_repeat_on_a_fresh_connection_stays_where_it_is(pool):
    exchange, first = pool.send(PROMPT)
    again = pool.director.next_after_failure(exchange, Failure(FailureKind.CLOSED_REUSED), 1.1)

    assert again.slot == first.slot
    assert flying(pool) == {first.slot: 1}


def test_the_cycle_has_the_chain_in_the_finest_blocks(pool):
    exchange, _ = pool.send(PROMPT)
    cycle = exchange.decision.cycle

    assert len(cycle.chain) == 10_000 // 64
    assert cycle.chain_block_tokens == 16.0


def test_a_request_without_a_prompt_has_no_chain(pool):
    exchange = pool.open(b"", path="/v1/other", method="GET")
    pool.director.pick(exchange, 1.0)

    assert exchange.decision.cycle.chain == ()


def test_without_views_there_is_no_chain():
    assert first_chain(PromptChains({}, True, None, 100), {}) == ((), 0.0)
    assert first_chain(PromptChains({64: ()}, True, None, 100), {64: 16.0}) == ((), 16.0)


# -------------------------------------------------------------------- hashes instead of a body


def hashed(pool, chain, model="m"):
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 1.0)
    chains = PromptChains({64: (chain,), 128: (chain[1::2],)}, True, chain[0], 4_000)
    request = InferenceRequest(Api.COMPLETIONS, model, "", (), stream=True, body_bytes=4_000)
    prepare_hashed(pool.core.state, exchange, request, chains, 1_000)
    return exchange


def test_hashes_are_claimed_and_matched_as_those_of_a_body(pool):
    chain = [(n + 1) << 56 | n for n in range(60)]
    earlier = hashed(pool, chain)
    first = pool.director.pick(earlier, 1.0)
    pool.answer(earlier)
    exchange = hashed(pool, chain)
    second = pool.director.pick(exchange, 3.0)

    assert second.slot == first.slot
    assert exchange.matches["gpu"].blocks(first.slot) == 60
    assert sum(exchange.predicted.values()) == 960


def test_hashes_for_an_unknown_model_are_refused(pool):
    for endpoint in pool.core.table.pool.endpoints:
        pool.core.upkeep.on_models(endpoint.address, endpoint.incarnation, (ModelInfo("m"),), 0.0)

    with pytest.raises(ModelNotFoundError):
        hashed(pool, [1 << 60], model="other")


def test_a_pick_that_somebody_else_sends_is_never_under_way(pool):
    """Nobody would say when it ends."""
    for _ in range(3):
        pick_now(
            pool.director,
            RequestHead("", "POST", "/v1/completions"),
            json.dumps({"model": "m", "prompt": PROMPT}).encode(),
            1.0,
            commit=True,
        )

    assert flying(pool) == {}


def test_a_shadow_that_learns_is_told_of_answers_too():
    pool = ShadowPool(COST)
    exchange, target = pool.send(PROMPT, stream=True)
    ((shadow, _),) = pool.core.state.shadow.scheduler.profiles["default"].scorers
    assert len(shadow._endpoints[target.slot].flights) == 1

    pool.answer(exchange, usage=usage(2_000, completion=56), now=1.3)
    assert shadow._learned["m"].latency.samples == 1
    assert shadow._learned["m"].output_tokens == 236.0
    assert shadow._endpoints[target.slot].flights == {}
    assert pool.failures == []


def test_a_shadow_that_fails_at_an_answer_is_told_and_ends_nothing(monkeypatch):
    pool = ShadowPool(COST)
    exchange, _ = pool.send(PROMPT, stream=True)
    ((shadow, _),) = pool.core.state.shadow.scheduler.profiles["default"].scorers
    monkeypatch.setattr(shadow, "on_first_token", lambda *_: 1 / 0)
    monkeypatch.setattr(shadow, "on_ended", lambda *_: 1 / 0)

    pool.answer(exchange, now=1.3)

    assert [type(failure) for failure in pool.failures] == [ZeroDivisionError, ZeroDivisionError]
    assert exchange.ended
