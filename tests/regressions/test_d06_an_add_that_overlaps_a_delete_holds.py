"""D06 (LR p2092): an add that overlapped a delete silently dropped the endpoint."""

from tests.director.core import Pool

E1 = "10.0.0.1:8000"
PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


def test_an_endpoint_that_comes_back_before_its_old_entries_are_swept_is_there():
    pool = Pool(n=1)
    pool.serve(PROMPT)
    pool.core.upkeep.sync_endpoints([], 1.0)
    assert pool.index.busy(0)
    pool.core.upkeep.sync_endpoints(pool.specs, 1.0)
    while not pool.core.upkeep.tick(1.1):
        pass

    assert [e.address for e in pool.core.table.pool.endpoints] == [E1]
    assert pool.send(PROMPT, 2.0)[1].address == E1


def test_it_begins_cold_and_nothing_late_reaches_it():
    pool = Pool(n=1)
    old, _ = pool.send(PROMPT)
    pool.core.upkeep.sync_endpoints([], 1.0)
    pool.core.upkeep.sync_endpoints(pool.specs, 1.0)
    new, _ = pool.send(PROMPT, 2.0)
    pool.answer(old, now=3.0)
    slot = pool.endpoint(1).slot

    assert new.matches["gpu"].segments == ()
    assert pool.ledger.requests[slot] == 1
