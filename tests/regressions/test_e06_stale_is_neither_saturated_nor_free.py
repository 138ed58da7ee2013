"""E06 (LR p2165, p1580): stale metrics counted as saturated, or as full capacity. Scrapes fail for 3 s, limit 2 s."""

import pytest

from epp.compose import CoreOptions
from epp.endpoints.types import EndpointMetrics
from epp.errors import SaturatedError
from epp.flow.admission import Objective
from tests.director.core import Pool
from tests.observability.builders import World

BATCH = {"x-llm-d-inference-objective": "batch"}


def saturated_pool():
    options = CoreOptions(
        seed=7, timer=lambda: 0.0, staleness_s=lambda: 2.0, objectives=(Objective("batch", -1),)
    )
    pool = Pool(n=3, options=options)
    for i in range(1, 4):
        e = pool.endpoint(i)
        pool.core.upkeep.on_metrics(
            e.address, e.incarnation, EndpointMetrics(waiting=50.0, kv_usage=1.0), 10.0
        )
    return pool


def pick(pool, now, headers=BATCH):
    return pool.director.pick(pool.open({"model": "m", "prompt": "x"}, headers=headers, now=now), now)


def test_fresh_and_saturated_is_shed():
    with pytest.raises(SaturatedError):
        pick(saturated_pool(), 10.0)


def test_when_no_scrape_has_succeeded_for_3_s_a_sheddable_request_is_let_in():
    pool = saturated_pool()
    pool.core.upkeep.tick(13.0)

    assert not any(e.fresh for e in pool.core.table.pool.endpoints)
    assert pick(pool, 13.0).slot in range(3)


def test_a_stale_endpoint_does_not_make_room_for_a_saturated_pool_either():
    pool = saturated_pool()
    fresh = pool.endpoint(1)
    pool.core.upkeep.on_metrics(
        fresh.address, fresh.incarnation, EndpointMetrics(waiting=50.0, kv_usage=1.0), 13.0
    )
    pool.core.upkeep.tick(13.0)

    assert [e.fresh for e in pool.core.table.pool.endpoints] == [True, False, False]
    with pytest.raises(SaturatedError):
        pick(pool, 13.0)


def test_the_gauge_counts_every_stale_endpoint():
    world = World(endpoints=3)
    for number in range(3):
        world.scrape(number, waiting=50.0)
    assert world.samples("epp_stale_endpoints") == {"": 0.0}

    world.clock.advance(3.0)
    world.table.refresh_staleness(world.clock.monotonic(), 2.0)

    assert world.samples("epp_stale_endpoints") == {"": 3.0}
