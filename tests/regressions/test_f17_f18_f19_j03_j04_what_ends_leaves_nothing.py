"""What was kept of endpoints and caches that had ended.

F17 (GIE p1376, LR p1738): a removed endpoint kept its entries. F18 (AX i2287, KVC p626): the engine cleared its cache. F19
(LR i2853): it restarted in place. J03 (DY i4429): memory grew as endpoints came and went. J04 (DY p11785): removals of what
was never held left entries.
"""

from epp.endpoints.types import EndpointMetrics
from tests.director.core import Pool

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64
VIEWS = ("gpu", "cpu")


def held(pool, now=9.0):
    """Blocks that each view says the endpoints hold of the prompt."""
    exchange = pool.open({"model": "m", "prompt": PROMPT}, now=now)
    pool.director.schedule(exchange, now)
    return {
        e.address[:8]: [exchange.matches[v].blocks(e.slot) for v in VIEWS]
        for e in pool.core.table.pool.endpoints
    }


def record(pool, *numbers):
    for i in numbers:
        exchange = pool.open({"model": "m", "prompt": PROMPT})
        pool.director.schedule(exchange, 1.0)
        pool.director.commit(exchange, exchange.decision, pool.endpoint(i))


def swept(pool):
    while not pool.core.upkeep.tick(1.0):
        pass
    pool.index.check_integrity()
    return pool.index.nodes()


def test_f17_a_removed_endpoint_is_in_no_match_and_its_memory_comes_back():
    pool = Pool(n=2)
    record(pool, 1, 2)
    pool.core.upkeep.sync_endpoints(pool.specs[1:], 1.0)
    assert held(pool) == {"10.0.0.2": [45, 45]}
    pool.core.upkeep.sync_endpoints([], 1.0)

    assert swept(pool) == 0


def test_f18_an_endpoint_whose_cache_was_reset_has_lost_all_tiers_and_the_others_none():
    pool = Pool(n=2)
    record(pool, 1, 2)
    pool.core.upkeep.on_cache_lost("10.0.0.1:8000", gpu_only=False)

    assert held(pool) == {"10.0.0.1": [0, 0], "10.0.0.2": [45, 45]}


def test_f18_where_only_the_gpu_tier_was_reset_the_cpu_tier_still_counts():
    pool = Pool(n=2)
    record(pool, 1, 2)
    pool.core.upkeep.on_cache_lost("10.0.0.1:8000", gpu_only=True)

    assert held(pool) == {"10.0.0.1": [0, 45], "10.0.0.2": [45, 45]}


def restart(pool, **metrics):
    e = pool.endpoint(1)
    pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(**metrics), 2.0)


def test_f19_an_engine_that_restarted_in_place_holds_nothing():
    for before, after in (
        ({"process_start": 100.0}, {"process_start": 200.0}),
        ({"prompt_tokens_total": 5000.0}, {"prompt_tokens_total": 10.0}),
    ):
        pool = Pool(n=2)
        restart(pool, **before)
        record(pool, 1, 2)
        restart(pool, **after)

        assert held(pool) == {"10.0.0.1": [0, 0], "10.0.0.2": [45, 45]}


def test_j03_a_thousand_endpoints_that_come_and_go_leave_no_slot_and_no_entry():
    pool = Pool(n=2)
    for now in range(1000):
        pool.core.upkeep.sync_endpoints(pool.specs, float(now))
        e = pool.endpoint(1)
        pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(waiting=0.0), float(now))
        pool.serve(f"{now} " * 100, float(now))
        pool.core.upkeep.sync_endpoints(pool.specs[now % 2 : now % 2 + 1], float(now))
        pool.core.upkeep.tick(float(now))
    pool.core.upkeep.sync_endpoints([], 1001.0)

    assert swept(pool) == 0
    assert len(pool.ledger.requests) <= 8
    assert pool.ledger.total() == 0


def test_j04_removing_what_was_never_held_or_held_twice_leaves_nothing():
    pool = Pool(n=1)
    for _ in range(3):
        pool.core.upkeep.on_cache_lost("10.0.0.1:8000", gpu_only=True)
        pool.core.upkeep.on_cache_lost("10.9.9.9:1", gpu_only=False)
    swept(pool)
    record(pool, 1, 1)
    entries = pool.index.nodes()
    record(pool, 1)
    assert pool.index.nodes() == entries
    pool.core.upkeep.on_cache_lost("10.0.0.1:8000", gpu_only=False)

    assert swept(pool) == 0
