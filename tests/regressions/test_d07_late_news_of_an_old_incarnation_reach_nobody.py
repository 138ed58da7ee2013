"""D07 (LR p1739, p1545): late deletes and late releases of an old pod hit the new one at its address.

Add E1/uid1; three in flight; delete; add E1/uid2; one in flight; the three end; a late delete(uid1).
"""

from dataclasses import replace

from epp.director.types import EndReason
from tests.director.core import Pool

E1 = "10.0.0.1:8000"


def test_in_flight_counts_belong_to_the_incarnation_and_are_never_negative():
    pool = Pool(n=1)
    first, second = (replace(pool.specs[0], uid=uid) for uid in ("uid1", "uid2"))
    pool.core.upkeep.sync_endpoints([first], 1.0)
    old = [pool.send(f"{n} old " * 100, 1.0)[0] for n in range(3)]
    pool.core.upkeep.sync_endpoints([], 2.0)
    pool.core.upkeep.sync_endpoints([second], 2.0)
    pool.send("new " * 100, 2.5)
    for reason, exchange in zip(
        (EndReason.COMPLETE, EndReason.UPSTREAM_ABORTED, EndReason.CLIENT_DISCONNECTED), old, strict=True
    ):
        pool.director.on_end(exchange, reason, 3.0)
    assert pool.core.table.remove(E1, uid="uid1") is False

    endpoint = pool.endpoint(1)
    assert endpoint.spec.uid == "uid2"
    assert pool.ledger.requests[endpoint.slot] == 1
    assert min(pool.ledger.requests) == min(pool.ledger.tokens[:1]) == 0
