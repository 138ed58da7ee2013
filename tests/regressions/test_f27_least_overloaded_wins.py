"""F27 (GIE p2583): negative headroom was compared the wrong way. All endpoints are over a limit by 1, 5, 9."""

import itertools

import pytest

from epp.endpoints.types import EndpointMetrics
from tests.director.core import Pool

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: {scorer}
- type: utilization-detector
  parameters: {{queueDepthThreshold: 5}}
"""


@pytest.mark.parametrize("scorer", ["queue-scorer", "load-aware-scorer"])
@pytest.mark.parametrize("over", list(itertools.permutations([1, 5, 9])))
def test_of_endpoints_that_are_all_over_the_limit_the_least_overloaded_wins(scorer, over):
    pool = Pool(n=3, config=CONFIG.format(scorer=scorer))
    for i, more in enumerate(over, start=1):
        e = pool.endpoint(i)
        pool.core.upkeep.on_metrics(e.address, e.incarnation, EndpointMetrics(waiting=5.0 + more), 1.0)

    _, target = pool.send("x")

    assert target.address == f"10.0.0.{over.index(1) + 1}:8000"
