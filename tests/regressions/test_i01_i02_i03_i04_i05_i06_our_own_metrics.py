"""What was wrong with routers' own metrics.

I01 (LR p1909): the model's name from the body as label. I02 (LR p2119): a tenant's, never freed. I03 (AX p1976): wrong labels
raised in the path of requests. I04 (GIE p2719, p2049): averages cut, old values of a gauge. I05 (GIE p2726): sizes always 0.
I06 (PS p943): queries counted twice where there are two replicas.
"""

import asyncio
import re
from pathlib import Path

import pytest

from epp.observability.metrics import Metrics
from tests.observability.builders import World

DOCS = Path(__file__).parents[2] / "docs"
# What each replica tells of the same endpoint.
TOLD_BY_EVERY_REPLICA = (
    "epp_endpoint_queue_size", "epp_endpoint_running_requests", "epp_endpoint_kv_cache_utilization",
    "epp_endpoint_cached_tokens_total", "epp_endpoint_prompt_tokens_total", "epp_index_capacity_mismatch_ratio",
)  # fmt: skip


def test_i01_five_thousand_names_make_one_more_series_than_the_cap_and_known_models_keep_theirs():
    world = World(max_models=10)
    world.observe(world.record(model="m"))
    for number in range(5000):
        world.observe(world.record(model=f"random-{number}", target_model=""))
    world.observe(world.record(model="m"))
    series = world.samples("inference_objective_request_total")

    assert len(series) == 11
    assert [value for labels, value in series.items() if labels.startswith('model_name="m"')] == [2.0]
    assert sum(value for labels, value in series.items() if labels.startswith('model_name="other"')) == 4991


def test_i02_five_thousand_tenants_make_one_more_series_than_the_cap():
    world = World(max_fairness_ids=50)
    for number in range(5000):
        world.observe(world.record(fairness_id=f"tenant-{number}"))
    series = world.samples("llm_d_epp_request_total")

    assert len(series) == 51
    assert sum(series.values()) == 5000


async def test_i03_a_fault_in_the_metrics_is_counted_and_the_request_goes_on(scripted, route, monkeypatch):
    def fails(_self, _record):
        raise KeyError("label")

    monkeypatch.setattr(Metrics, "observe", fails)
    [endpoint] = await scripted()
    router = await route(endpoint)
    await router.know("m")
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    await (await endpoint.call()).answer()

    assert (await asking).status_code == 200
    [decision] = await router.decisions(1)
    assert decision["reason"] == "complete"
    assert await router.sample("epp_observer_errors_total", observer="metrics") == 1


def test_i04_averages_are_not_cut_and_nothing_is_ready_when_all_is_stale():
    world = World()
    world.scrape(0, waiting=1.0)
    world.scrape(1, waiting=2.0)
    fresh = [
        list(world.samples(name).values())
        for name in ("inference_pool_average_queue_size", "inference_pool_ready_pods")
    ]
    world.table.refresh_staleness(world.clock.monotonic() + 10, 2.0)
    stale = [
        list(world.samples(name).values())
        for name in ("inference_pool_average_queue_size", "inference_pool_ready_pods")
    ]

    assert fresh == [[1.5], [2.0]]
    assert stale == [[], [0.0]]


async def test_i05_three_pieces_of_ten_bytes_are_one_answer_of_thirty(theatre):
    endpoint, router = theatre
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    call = await endpoint.call()
    await call.stream(*[b"data: 001\n"] * 3)
    await call.end()
    await asking
    await router.decisions(1)

    assert await router.sample("llm_d_epp_response_size_bytes_count") == 1
    assert await router.sample("llm_d_epp_response_size_bytes_sum") == 30


@pytest.mark.parametrize("page", ["metrics.md", "operations.md"])
def test_i06_what_every_replica_tells_of_an_endpoint_is_counted_once_in_the_queries(page):
    queries = "\n".join(re.findall(r"```promql\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))
    uses = [(name, match.start()) for name in TOLD_BY_EVERY_REPLICA for match in re.finditer(name, queries)]
    alone = [
        name
        for name, at in uses
        if not re.search(r"max by \([^)]*endpoint[^)]*\) \((rate\()?$", queries[:at])
    ]

    assert uses or page == "operations.md"
    assert alone == []
