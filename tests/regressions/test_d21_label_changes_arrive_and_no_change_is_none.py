"""D21 (LR p879, p1404): changes of endpoints did not arrive in some configurations; no-ops woke everybody."""

from dataclasses import replace

from tests.director.core import Pool


def test_a_label_change_reaches_the_next_decision_and_keeps_the_incarnation():
    pool = Pool(n=1)
    before = pool.endpoint(1)
    changes = pool.core.upkeep.sync_endpoints([replace(pool.specs[0], labels={"zone": "b"})], 1.0)
    exchange, _ = pool.send("x", 2.0)
    (candidate,) = exchange.decision.cycle.candidates

    assert changes.updated == ("10.0.0.1:8000",)
    assert candidate.spec.labels == {"zone": "b"}
    assert (candidate.slot, candidate.incarnation) == (before.slot, before.incarnation)


def test_the_same_set_again_changes_nothing():
    pool = Pool(n=3)
    before = pool.core.table.pool
    changes = pool.core.upkeep.sync_endpoints([replace(s) for s in reversed(pool.specs)], 1.0)

    assert not changes
    assert pool.core.table.pool is before
