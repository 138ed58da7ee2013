"""I09 (GIE p604): the running gauge was raised for requests that were then rejected. 10 rejects."""

import pytest

from epp.compose import CoreOptions
from epp.director.director import Limits
from epp.director.types import EndReason
from epp.endpoints.types import EndpointMetrics
from epp.errors import EppError
from epp.flow.admission import Objective
from tests.director.core import Pool

BATCH = {"x-llm-d-inference-objective": "batch"}


@pytest.mark.parametrize("limits", [Limits(), Limits(inflight_per_endpoint=1)], ids=["shed", "full"])
def test_ten_rejects_leave_running_requests_and_ledger_as_they_were(limits):
    pool = Pool(
        n=1,
        options=CoreOptions(seed=7, timer=lambda: 0.0, limits=limits, objectives=(Objective("batch", -1),)),
    )
    pool.send("x", 1.0)
    e = pool.endpoint(1)
    pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(waiting=9.0), 1.0)

    for _ in range(10):
        exchange = pool.open({"model": "m", "prompt": "y"}, headers=BATCH)
        with pytest.raises(EppError) as caught:
            pool.director.pick(exchange, 1.0)
        pool.director.on_end(exchange, EndReason.REJECTED, 1.0, error=caught.value)

    assert pool.director.running.counts() == {("m", "m", "default-flow", 0): 1}
    assert pool.ledger.total() == 1
    assert [record.status for record in pool.records] == [429] * 10
