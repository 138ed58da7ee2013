"""D11 (SG i25811, VR p60): 4xx counted as failures of the worker, so that bad clients took down the fleet."""

import pytest

from epp.director.types import EndReason
from tests.director.core import Pool


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429])
def test_after_twenty_refusals_the_endpoint_is_still_eligible(status):
    pool = Pool(n=1)
    for n in range(20):
        exchange, _ = pool.send(f"{n}", float(n))
        pool.director.on_response_head(exchange, status, float(n))
        pool.director.on_end(exchange, EndReason.COMPLETE, float(n))

    assert pool.core.state.health.ejected(pool.endpoint(1), 20.0) is None
    assert pool.serve("good", 21.0).status == 200
