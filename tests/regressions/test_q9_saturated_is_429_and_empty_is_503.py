"""Q9 (LR p1751, p2047, p2462): 429 when ready endpoints exist but none can take it, 503 when none exists."""

import pytest

from epp.compose import CoreOptions
from epp.director.director import Limits
from epp.director.types import Failure, FailureKind
from epp.errors import NoEndpointsError, SaturatedError
from epp.http.errors import error_response
from tests.director.core import Pool

REASON = b"x-llm-d-request-dropped-reason"


def answer(pool, now=1.0):
    exchange = pool.open({"model": "m", "prompt": "x"}, now=now)
    with pytest.raises((SaturatedError, NoEndpointsError)) as caught:
        pool.director.pick(exchange, now)
    status, headers, _ = error_response(caught.value)
    return status, dict(headers)[REASON], dict(headers)[b"retry-after"]


def test_ready_endpoints_that_are_all_full_are_429():
    options = CoreOptions(seed=7, timer=lambda: 0.0, limits=Limits(inflight_per_endpoint=1))
    pool = Pool(n=1, options=options)
    pool.send("x")

    assert answer(pool) == (429, b"rejected-saturated", b"1")


def test_no_endpoint_at_all_is_503():
    assert answer(Pool(n=0)) == (503, b"rejected-no-endpoints", b"1")


def test_endpoints_of_which_none_is_ready_are_503():
    pool = Pool(n=1)
    pool.core.table.mark_draining("10.0.0.1:8000")

    assert answer(pool) == (503, b"rejected-no-endpoints", b"1")


def test_the_last_endpoint_is_never_ejected_and_so_never_503():
    pool = Pool(n=1)
    for now in range(1, 9):
        exchange, _ = pool.send("x", float(now))
        pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT), float(now))

    assert pool.send("x", 9.0)[1].address == "10.0.0.1:8000"
