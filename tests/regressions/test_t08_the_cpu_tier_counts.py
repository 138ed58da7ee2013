"""T8: the CPU tier was invisible. P lies on A; 200 other blocks push it out of A's GPU tier; B is idle."""

from epp.config import load_config
from epp.endpoints.types import EndpointMetrics
from tests.config.config_texts import ROOT
from tests.director.core import Pool

A, B = "10.0.0.1:8000", "10.0.0.2:8000"
SEED = (ROOT / "config" / "tiered-prefix-cpu.yaml").read_text()


def text(name, blocks):
    return f"{name:>64}" * blocks


def pool_with(waiting):
    """A has computed P and then 200 other blocks; `waiting` requests are in its queue."""
    pool = Pool(n=2, config=SEED)
    for i, queue in ((1, waiting), (2, 0)):
        e = pool.endpoint(i)
        metrics = EndpointMetrics(
            waiting=float(queue),
            kv_usage=0.1,
            block_tokens=16,
            gpu_capacity_tokens=1600,
            cpu_capacity_tokens=16_000,
        )
        pool.core.upkeep.on_metrics(e.address, e.incarnation, metrics, 1.0)
    for prompt in (text("P", 50), *[text(f"other {n}", 50) for n in range(4)]):
        exchange = pool.open({"model": "m", "prompt": prompt}, now=1.0)
        pool.director.schedule(exchange, 1.0)
        pool.director.commit(exchange, exchange.decision, pool.endpoint(1))
    return pool


def test_the_seeds_configuration_has_both_tiers():
    assert sorted(view.tier for view in load_config(SEED).views) == ["cpu", "gpu"]


def test_at_equal_queues_a_is_picked_for_what_its_cpu_tier_holds():
    exchange, target = pool_with(0).send(text("P", 50), 2.0)

    assert target.address == A
    assert (exchange.predicted["gpu"], exchange.predicted["cpu"] > 700) == (0, True)


def test_with_a_queue_at_a_it_is_b():
    assert pool_with(1).send(text("P", 50), 2.0)[1].address == B
