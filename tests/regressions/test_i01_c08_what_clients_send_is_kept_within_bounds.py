"""I01 (LR p1909) and C08 (vLLM p10968), their kind: what clients choose is remembered, logged and used as a label.

While endpoints have not told their models, any name is a model's. It is bounded in length and in number wherever it is kept.
"""

import json
import tracemalloc

import pytest

from epp.director.types import EndReason
from epp.errors import NoEndpointsError
from epp.observability.decisions import DecisionLog
from epp.response.types import Usage
from tests.director.core import Pool

LONG = 1 << 20


def test_names_that_clients_make_up_teach_no_more_than_a_thousand_models():
    pool = Pool(n=1)
    for number in range(3000):
        pool.serve("text " * 20, float(number), usage=Usage(25, 4), model=f"made-up-{number}")
        pool.records.clear()

    assert len(pool.core.state.ratios.models()) == 1024
    assert len(pool.director._learning._outputs._means.all()) == 1024


async def test_a_name_longer_than_any_is_400_and_stands_nowhere(stage):
    endpoint, router = stage
    answer = await router.client.post("/v1/completions", json={"model": "m" * LONG, "prompt": "a"})
    shown = [
        (await router.client.get(page)).text for page in ("/debug/decisions", "/metrics", "/debug/state")
    ]

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")
    assert len(answer.content) < 300
    assert [page for page in shown if "mmmmmmmm" in page] == []
    assert endpoint.relayed() == []


def test_what_a_stream_keeps_of_its_request_is_small():
    pool = Pool(n=1)
    body = {"model": "m", "prompt": "p" * LONG, "cache_salt": "s" * LONG, "previous_response_id": "r" * LONG}
    raw = json.dumps(body).encode()
    tracemalloc.start()
    try:
        exchange = pool.open(raw, path="/v1/completions")
        pool.director.pick(exchange, 1.0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (exchange.request.salt, exchange.request.prompts, exchange.request.stored_response) == (
        "",
        (),
        None,
    )
    assert held < LONG // 2  # the hashes of its blocks


def test_a_thousand_decisions_on_long_paths_are_kept_in_a_few_megabytes():
    pool = Pool(n=1)
    log = DecisionLog(1000, lambda: 0.0)
    pool.director.observers.append(lambda record: log.observe([record]))
    tracemalloc.start()
    try:
        for number in range(1000):
            exchange = pool.open(b"", path=f"/{number}/" + "x" * 60_000, method="GET")
            pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 1.0)
            pool.records.clear()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 4 << 20


def test_decisions_on_long_prompts_are_kept_without_them_and_without_their_hashes():
    pool = Pool(n=8)
    log = DecisionLog(100, lambda: 0.0)
    pool.director.observers.append(lambda record: log.observe([record]))
    prompt = "p" * 200_000
    for number in range(3):
        pool.serve(prompt, float(number))
    tracemalloc.start()
    try:
        for number in range(3, 103):
            pool.serve(prompt, float(number))
            pool.records.clear()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held / 100 < 16_384


def test_no_endpoint_for_a_long_name_is_a_short_message():
    pool = Pool(n=0)
    exchange = pool.open({"model": "n" * 1000, "prompt": "a"})
    with pytest.raises(NoEndpointsError) as caught:
        pool.director.pick(exchange, 1.0)

    assert len(caught.value.message) < 200
