"""Requests that rules send to another model."""

import gzip
import json

import pytest

from epp.compose import CoreOptions
from epp.director.exchange import RewrittenBody
from epp.director.pick import pick_now
from epp.director.receipts import receipt, receipt_line
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.endpoints.types import ModelInfo
from epp.errors import ModelNotFoundError
from epp.request import LARGE_BYTES, ModelRewrites, Rewrite, RewriteRule, RewriteTarget
from tests.director.core import Pool

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


def rule(asked, *targets):
    models = () if asked is None else (asked,)
    return RewriteRule(models, tuple(RewriteTarget(*target) for target in targets), "canary")


def pool_with(*rules, n=2):
    options = CoreOptions(seed=7, timer=lambda: 0.0, rewrites=ModelRewrites(rules))
    return Pool(n=n, options=options)


def test_without_a_rule_the_body_stays_and_nothing_is_noted():
    exchange, _ = pool_with().send(PROMPT)

    assert exchange.rewrite is None
    assert exchange.rewritten is None


def test_the_target_is_what_is_forwarded_resolved_and_recorded():
    pool = pool_with(rule("m", ("m-v2",)))
    exchange, _ = pool.send(PROMPT)
    pool.answer(exchange)

    assert json.loads(exchange.rewritten.body)["model"] == "m-v2"
    assert not exchange.rewritten.decoded
    assert exchange.resolution.model == "m-v2"
    [record] = pool.records
    assert (record.model, record.target_model) == ("m", "m-v2")
    assert record.rewrite == Rewrite("m", "m-v2", "canary")


def test_the_target_seeds_the_hashes_so_both_names_share_a_prefix():
    pool = pool_with(rule("m", ("m-v2",)))
    pool.serve(PROMPT)

    named = pool.open({"model": "m-v2", "prompt": PROMPT})
    pool.director.pick(named, 3.0)
    other = pool.open({"model": "m-v3", "prompt": PROMPT})
    pool.director.pick(other, 3.0)

    assert sum(named.predicted.values()) > 0
    assert sum(other.predicted.values()) == 0


def test_a_target_that_is_an_adapter_goes_where_the_adapter_is():
    pool = pool_with(rule("m", ("tuned",)))
    base, adapter = ModelInfo("base"), ModelInfo("tuned", parent="base")
    pool.core.table.set_models(pool.specs[0].address, (base,), 0.0)
    pool.core.table.set_models(pool.specs[1].address, (base, adapter), 0.0)

    exchange, target = pool.send(PROMPT)

    assert target.address == "10.0.0.2:8000"
    assert (exchange.decision.cycle.model, exchange.decision.cycle.adapter) == ("tuned", "tuned")


def test_weights_are_drawn_from_the_seed():
    split = rule("m", ("a", 1), ("b", 1))

    def drawn():
        pool = pool_with(split)
        return [pool.open({"model": "m", "prompt": "x"}).rewrite.target for _ in range(12)]

    first = drawn()

    assert first == drawn()
    assert set(first) == {"a", "b"}


def test_a_repeat_keeps_the_target():
    pool = pool_with(rule("m", ("a", 1), ("b", 1)), n=3)
    exchange, _ = pool.send(PROMPT)
    chosen, body = exchange.rewrite, exchange.rewritten

    pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.5)

    assert (exchange.rewrite, exchange.rewritten) == (chosen, body)
    assert exchange.resolution.model == chosen.target


def test_a_model_that_is_rewritten_to_itself_is_counted_and_its_body_stays():
    exchange, _ = pool_with(rule("m", ("m",))).send(PROMPT)

    assert exchange.rewrite == Rewrite("m", "m", "canary")
    assert exchange.rewritten is None


@pytest.mark.parametrize("model", [{}, {"model": None}, {"model": ""}])
def test_a_rule_for_any_model_gives_one_to_requests_without(model):
    exchange = pool_with(rule(None, ("base",))).open({**model, "prompt": "x"})

    assert json.loads(exchange.rewritten.body) == {"prompt": "x", "model": "base"}
    assert exchange.rewrite == Rewrite(None, "base", "canary")


def test_a_compressed_body_is_forwarded_as_it_was_before():
    body = json.dumps({"model": "m", "prompt": "x"}).encode()
    exchange = pool_with(rule("m", ("m-v2",))).open(gzip.compress(body), headers={"content-encoding": "gzip"})

    assert exchange.rewritten == RewrittenBody(body.replace(b'"m"', b'"m-v2"'), decoded=True)


@pytest.mark.parametrize(("path", "method"), [("/v1/audio/speech", "POST"), ("/v1/chat/completions", "GET")])
def test_a_body_that_nobody_reads_stays(path, method):
    exchange = pool_with(rule(None, ("base",))).open({"model": "m"}, path=path, method=method)

    assert exchange.rewrite is None


def test_a_form_stays():
    pool = pool_with(rule("m", ("m-v2",)))
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/audio/transcriptions"), 1.0)
    list(pool.director.prepare(exchange, None, 1.0, model="m"))

    assert exchange.resolution.model == "m"


def test_a_target_that_nobody_serves_is_404_and_its_name_is_not_told():
    pool = pool_with(rule("m", ("gone",)), rule(None, ("gone-too",)), n=1)
    pool.core.table.set_models(pool.specs[0].address, (ModelInfo("m"),), 0.0)

    with pytest.raises(ModelNotFoundError, match=r"^model 'm' is rewritten to a model that does not exist$"):
        pool.open({"model": "m", "prompt": "x"})
    with pytest.raises(
        ModelNotFoundError, match=r"^the request is rewritten to a model that does not exist$"
    ):
        pool.open({"prompt": "x"})


def test_rules_that_are_found_count_from_the_next_request_on():
    pool = pool_with()
    assert pool.open({"model": "m", "prompt": "x"}).rewrite is None

    pool.core.options.rewrites.use_found([rule("m", ("m-v2",))])

    assert pool.open({"model": "m", "prompt": "x"}).rewrite.target == "m-v2"


def test_a_large_body_is_rewritten_with_pauses_whose_time_does_not_count():
    ticks = iter(range(1000))
    options = CoreOptions(timer=lambda: next(ticks), rewrites=ModelRewrites([rule("m", ("m-v2",))]))
    pool = Pool(n=1, options=options)
    body = json.dumps({"model": "m", "prompt": "x" * LARGE_BYTES}).encode()
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 1.0)
    for _ in pool.director.prepare(exchange, body, 1.0):
        for _ in range(50):
            next(ticks)

    assert exchange.rewritten.body == body.replace(b'"m"', b'"m-v2"')
    assert exchange.prepare_s < 20


def test_a_pick_for_somebody_else_says_which_model_to_send():
    pool = pool_with(rule("m", ("m-v2",)))
    head = RequestHead("", "POST", "/v1/completions")

    rewritten = pick_now(pool.director, head, b'{"model":"m","prompt":"x"}', 1.0, commit=False)
    other = pick_now(pool.director, head, b'{"model":"n","prompt":"x"}', 1.0, commit=False)

    assert (rewritten.model, other.model) == ("m-v2", None)
    assert (rewritten.receipt["requested_model"], rewritten.receipt["model"]) == ("m", "m-v2")


def test_receipts_name_both_models():
    pool = pool_with(rule("m", ("org/m v2",)))
    exchange, _ = pool.send(PROMPT)
    plain, _ = pool.send(PROMPT, model="n")

    assert receipt(exchange, exchange.hold.endpoint)["requested_model"] == "m"
    assert " model=org_m_v2 " in receipt_line(exchange)
    assert " model=" not in receipt_line(plain)
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 2.0)
