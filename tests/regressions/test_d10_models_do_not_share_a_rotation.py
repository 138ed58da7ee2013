"""D10 (PS p916): one rotation counter for all models skewed traffic. A on E1, E2; B on E3, E4; strictly alternating."""

from collections import Counter

from epp.compose import CoreOptions
from epp.endpoints.types import ModelInfo
from tests.director.core import Pool


def test_each_endpoint_gets_a_quarter():
    pool = Pool(n=4, options=CoreOptions(seed=7, slow_start_s=0.0))
    for i, model in enumerate("aabb", start=1):
        endpoint = pool.endpoint(i)
        pool.core.upkeep.on_models(endpoint.address, endpoint.incarnation, (ModelInfo(model),), 1.0)
    picked = Counter()
    for n in range(400):
        exchange = pool.open({"model": "ab"[n % 2], "prompt": f"{n}"}, now=float(n))
        picked[pool.director.pick(exchange, float(n)).address] += 1
        pool.answer(exchange, now=float(n))

    assert all(abs(count - 100) <= 1 for count in picked.values())
    assert len(picked) == 4
