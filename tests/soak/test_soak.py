"""A short soak: the index of two endpoints is full soon, and from then on nothing grows. How long decisions take is
left to `make soak`: other tests share the machine.
"""

import pytest

from tests.soak.run import Plan, Report, Sample, _judge, percentile_s, run


@pytest.mark.e2e
@pytest.mark.parametrize("lane", ["fast", "asgi"])
async def test_memory_and_index_stay_as_they_are_once_they_are_full(lane):
    plan = Plan(3_000, steps=30, clients=16, endpoints=2, lane=lane, memory_growth=0.1, decision_growth=None)
    report = await run(plan)

    assert report.faults == [], "\n".join(report.lines())
    assert report.done == 3_000
    assert 200 < report.aborted < 400
    assert report.samples[-1].entries > 10_000


BUCKETS = {0.001: 0.0, 0.002: 0.0, float("inf"): 0.0}


def test_the_percentile_is_of_what_came_between_two_looks():
    begin = {0.001: 1000.0, 0.002: 1000.0, float("inf"): 1000.0}
    end = {0.001: 1000.0, 0.002: 1100.0, float("inf"): 1100.0}

    assert percentile_s(begin, end, 0.99) == pytest.approx(0.00199)
    assert percentile_s(BUCKETS, {0.001: 100.0, 0.002: 100.0, float("inf"): 100.0}, 0.99) == pytest.approx(
        0.00099
    )


def samples(resident, over=0.0, slow=0.0, slow_steps=range(40, 50), pace=1.0):
    """50 steps of 100 decisions; `slow` of those of some steps take twice as long; the last ten on a slower machine."""
    found = []
    fast_ones = all_ones = 0.0
    for step in range(50):
        fast_ones += 100 - (slow if step in slow_steps else 0)
        all_ones += 100
        buckets = {0.001: fast_ones, 0.002: all_ones, float("inf"): all_ones}
        found.append(
            Sample(
                int(resident(step)),
                1,
                over,
                buckets,
                (pace if slow > 50 else 1.0, pace) if step >= 40 else (1.0, 1.0),
            )
        )
    return found


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        (samples(lambda step: 1e8), []),
        (samples(lambda step: 5e7 if step < 10 else 1e8), []),
        (samples(lambda step: 1e8 + 2e5 * step), ["memory grew by 5.8%, more than 5%"]),
        (samples(lambda step: 1e8, over=5000.0), ["a view holds more tokens than its capacity"]),
        (samples(lambda step: 1e8, slow=10.0), ["decisions became slower: the p99"]),
        (
            samples(lambda step: 1e8, slow=60.0),
            ["decisions became slower: the median", "decisions became slower: the p99"],
        ),
        (samples(lambda step: 1e8, slow=10.0, slow_steps=range(46, 50)), []),
        (samples(lambda step: 1e8, slow=10.0, pace=1.9), []),
        (samples(lambda step: 1e8, slow=10.0, pace=1.3), ["decisions became slower: the p99"]),
    ],
    ids=[
        "flat",
        "warm-up",
        "leak",
        "index",
        "slow ones",
        "all of them",
        "few steps",
        "slow machine",
        "slower than it",
    ],
)
def test_what_grows_is_a_fault(given, faults):
    report = Report(samples=given)
    _judge(Plan(5000), report)

    assert report.faults == faults
