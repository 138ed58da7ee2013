"""F25 (LR p2462): all candidates filtered out was an internal error. A filter that drops all, pool non-empty."""

import pytest

from epp.errors import SaturatedError
from epp.http.errors import error_response
from tests.director.core import Pool

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: label-selector-filter
  parameters: {matchLabels: {zone: nowhere}}
"""


def test_a_filter_that_drops_all_is_429_with_the_reason():
    pool = Pool(n=2, config=CONFIG)
    exchange = pool.open({"model": "m", "prompt": "x"})

    with pytest.raises(SaturatedError) as caught:
        pool.director.pick(exchange, 1.0)

    status, headers, _body = error_response(caught.value)
    assert status == 429
    assert dict(headers)[b"x-llm-d-request-dropped-reason"] == b"rejected-saturated"
    assert dict(headers)[b"retry-after"] == b"1"
