"""A snapshot restores a core that decides as the one it is from."""

import json

import pytest

from epp.compose import CoreOptions
from epp.director.pick import pick_now
from epp.director.snapshot import read_state, restore, state_slices
from epp.director.types import Failure, FailureKind, RequestHead
from epp.endpoints.types import EndpointMetrics, ModelInfo
from tests.director.core import Pool, usage

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


def report(pool, i, **metrics):
    endpoint = pool.endpoint(i)
    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, EndpointMetrics(**metrics), 1.0)


def busy_pool():
    pool = Pool(n=20)
    for i in range(1, 20):
        report(pool, i, waiting=float(i), kv_usage=i / 40, block_tokens=16, gpu_capacity_tokens=8192)
    models = (ModelInfo("m", root="/models/m"), ModelInfo("lora", parent="m"))
    pool.core.upkeep.on_models(pool.endpoint(1).address, pool.endpoint(1).incarnation, models, 1.0)
    pool.core.table.mark_draining(pool.endpoint(2).address)
    pool.serve(PROMPT, usage=usage(960))
    pool.send("another prompt that is in flight " * 20, 1.5)
    return pool


def copied(pool, *, with_index=True):
    text = b"".join(state_slices(pool.core.state, 2.0, with_index=with_index))
    other = Pool(n=0, options=CoreOptions(seed=7, timer=lambda: 0.0))
    restore(other.core.state, read_state(text))
    return other


def pick(pool, prompt):
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    return pick_now(pool.director, RequestHead("", "POST", "/v1/completions"), body, 2.0, commit=False)


def test_the_copy_picks_the_same_for_the_same_reasons():
    pool = busy_pool()
    other = copied(pool)
    original, copy = pick(pool, PROMPT), pick(other, PROMPT)

    assert copy.endpoints == original.endpoints
    assert copy.receipt["candidates"][0]["scores"] == original.receipt["candidates"][0]["scores"]
    assert len(copy.receipt["candidates"]) == len(original.receipt["candidates"]) == 19
    assert copy.receipt["excluded"] == [{"endpoint": "10.0.0.2:8000", "reason": "draining"}]


def test_in_flight_counts_models_and_ratios_are_restored():
    pool = busy_pool()
    other = copied(pool)

    assert other.ledger.requests == pool.ledger.requests
    assert other.ledger.picks == pool.ledger.picks
    assert other.endpoint(1).models[1] == ModelInfo("lora", parent="m")
    assert other.endpoint(3).models is None
    assert other.core.state.ratios.models() == pool.core.state.ratios.models()
    assert (other.endpoint(1).fresh, other.endpoint(20).fresh) == (True, False)


def test_the_index_may_be_left_out():
    other = copied(busy_pool(), with_index=False)

    assert [other.index.size(view) for view in (0, 1)] == [0, 0]


def test_an_ejection_is_shown():
    pool = Pool(n=4)
    exchange, target = pool.send(PROMPT)
    pool.director.next_after_failure(exchange, Failure(FailureKind.ENGINE_DOWN), 1.1)
    state = read_state(b"".join(state_slices(pool.core.state, 2.0, with_index=False)))

    assert [e.ejected for e in state.endpoints if target.address in e.url] == ["engine-down"]


def test_a_stale_endpoint_stays_stale():
    pool = busy_pool()
    pool.core.upkeep.tick(100.0)
    other = copied(pool)
    other.core.table.refresh_staleness(2.0, 2.0)

    assert not other.endpoint(1).fresh
    assert other.endpoint(1).metrics.waiting == 1.0


@pytest.mark.parametrize("text", [b"", b"[]", b'{"endpoints": 3}', b"<html>"])
def test_what_is_no_snapshot_is_refused_with_the_place(text):
    with pytest.raises(ValueError, match="not a snapshot of /debug/state"):
        read_state(text)
