"""E04 (AX i547): a pod without metrics raised in routing. E05 (LR i2822): one never scraped looked idle, and won."""

import pytest

from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.scrape.page import PageReader
from tests.director.core import Pool

LOAD_ALONE = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
"""


def scrape(pool, i, metrics):
    e = pool.endpoint(i)
    pool.core.upkeep.on_metrics(e.address, e.incarnation, metrics, 1.0)


def scores(pool):
    exchange, target = pool.send("a", 1.0)
    result = exchange.decision.primary
    columns = {column.scorer: list(column.scores) for column in result.columns}
    pool.answer(exchange, now=1.0)
    return columns, target.address


def test_e04_an_endpoint_whose_page_is_empty_is_routed_like_any_other():
    pool = Pool(n=2, config=LOAD_ALONE)
    scrape(pool, 1, PageReader().read(b"").metrics)
    scrape(pool, 2, EndpointMetrics(waiting=0.0, kv_usage=0.0))
    columns, target = scores(pool)

    assert columns == {"queue-scorer": [0.5, 1.0], "kv-cache-utilization-scorer": [0.5, 1.0]}
    assert target == "10.0.0.2:8000"


def test_e05_one_that_was_never_scraped_does_not_win_the_metric_terms():
    pool = Pool(n=3, config=LOAD_ALONE)
    scrape(pool, 2, EndpointMetrics(waiting=1.0, kv_usage=0.1))
    scrape(pool, 3, EndpointMetrics(waiting=9.0, kv_usage=0.8))
    columns, target = scores(pool)

    assert columns["queue-scorer"] == [0.0, 1.0, 0.0]
    assert [round(value, 6) for value in columns["kv-cache-utilization-scorer"]] == [0.2, 0.9, 0.2]
    assert target == "10.0.0.2:8000"


WORST = EndpointMetrics(
    waiting=200.0,
    running=200.0,
    kv_usage=1.0,
    running_adapters=("x", "y"),
    waiting_adapters=("z",),
    max_adapters=2,
)
IDLE = EndpointMetrics(waiting=0.0, running=0.0, kv_usage=0.0, running_adapters=("a",), max_adapters=2)


@pytest.mark.parametrize("told", [WORST, IDLE], ids=["worst", "idle"])
@pytest.mark.parametrize(
    "scorer",
    [
        "queue-scorer",
        "running-requests-size-scorer",
        "kv-cache-utilization-scorer",
        "load-aware-scorer",
        "lora-affinity-scorer",
    ],
)
def test_e05_for_no_scorer_is_what_is_unknown_better_than_what_is_known(scorer, told):
    one = LOAD_ALONE.partition("plugins:")[0] + f"plugins: [{{type: {scorer}}}]\n"
    pool = Pool(n=2, config=one)
    e = pool.endpoint(2)
    models = (ModelInfo("m"), ModelInfo("a", parent="m"))
    pool.core.upkeep.on_models(e.address, e.incarnation, models, 1.0)
    scrape(pool, 2, told)
    exchange, _ = pool.send("a", 1.0, model="a")
    [column] = exchange.decision.primary.columns
    unknown, known = list(column.scores)

    assert unknown <= 0.5
    assert unknown <= known


def test_e05_where_nobody_was_scraped_all_are_equal_and_the_ledger_decides():
    pool = Pool(n=3, config=LOAD_ALONE)
    picked = [pool.send(f"{n}", 1.0)[1].address for n in range(3)]

    assert sorted(picked) == ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]
