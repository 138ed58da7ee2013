"""What a router remembers, and for how long.

J01 (PS i687): a trie that grew until the end. J02 (PS p1072, AX p2487): notes of requests that were never removed. K06 (AX
i917, LR i1842): replicas disagree. K07 (LR p1887, DY p7463): a new router over warm engines.
"""

import json
from collections import Counter

from epp.compose import CoreOptions
from epp.director.types import EndReason
from tests.director.core import Pool

TINY = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: approx-prefix-cache-producer, name: gpu, parameters: {tier: gpu, autoTune: false, lruCapacityPerServer: 100}}
- {type: approx-prefix-cache-producer, name: cpu, parameters: {tier: cpu, autoTune: false, lruCapacityPerServer: 400}}
- {type: prefix-cache-scorer, name: gpu-scorer, parameters: {prefixMatchInfoProducerName: gpu}}
- {type: prefix-cache-scorer, name: cpu-scorer, parameters: {prefixMatchInfoProducerName: cpu}}
- {type: active-request-scorer}
"""
PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


def test_j01_entries_never_exceed_endpoints_times_capacity():
    pool = Pool(n=3, config=TINY)
    most = 0
    for number in range(4000):
        pool.serve(f"{number} " * 300, float(number))
        most = max(most, pool.index.nodes())
    blocks = [pool.index.blocks(view.index_view, slot) for view in pool.core.state.views for slot in range(3)]
    pool.index.check_integrity()

    assert most <= 3 * (100 + 400)
    assert max(blocks[:3]) <= 25
    assert max(blocks[3:]) <= 100


def test_j02_of_requests_that_ended_nothing_is_left():
    pool = Pool(n=3, config=TINY)

    for number in range(10_000):
        exchange, _ = pool.send(f"{number % 97} " * 50, float(number))
        if number % 10:
            pool.answer(exchange, now=float(number))
        else:
            pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, float(number))
        pool.records.clear()

    assert (pool.ledger.total(), pool.director.running.counts()) == (0, {})
    assert list(pool.ledger.tokens[:3]) == [0, 0, 0]
    pool.core.upkeep.sync_endpoints([], 1e6)
    while not pool.core.upkeep.tick(1e6):
        pass
    assert pool.index.nodes() == 0


def test_k06_two_replicas_that_take_turns_answer_every_request_and_spread_by_their_own_loads():
    replicas = [Pool(n=4, options=CoreOptions(seed=seed, timer=lambda: 0.0)) for seed in (1, 2)]
    picked = Counter()
    for number in range(40):
        pool = replicas[number % 2]
        exchange, target = pool.send(PROMPT, float(number))
        pool.answer(exchange, now=float(number))
        picked[target.address] += 1

    assert picked.total() == 40
    assert len(picked) <= 2  # each replica keeps to its own choice


def test_k07_a_new_router_claims_nothing_and_learns_with_the_first_request():
    old = Pool(n=2)
    old.serve(PROMPT)
    new = Pool(n=2)
    first = new.serve(PROMPT, 1.0)
    second = new.serve(PROMPT, 2.0)

    assert json.dumps([first.predicted, second.predicted["gpu"] > 600]) == '[{"gpu": 0, "cpu": 0}, true]'
