"""E12 (PS i318): the router's own page had nothing of its endpoints. I08 (KVC p509): a metric that was never registered."""

from epp.observability import families_compat, families_own
from epp.observability.instruments import Family


async def test_e12_every_endpoints_state_is_on_the_page(recorder, route):
    page = b"vllm:num_requests_waiting 3\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.25\n"
    one, other = await recorder(answers={"/metrics": page}), await recorder()
    router = await route(one, other)
    await router.know("m")
    found = {
        name: await router.sample(f"epp_endpoint_{name}", endpoint=one.address)
        for name in (
            "queue_size",
            "running_requests",
            "kv_cache_utilization",
            "inflight_requests",
            "ready",
            "ejected",
        )
    }

    assert found == {
        "queue_size": 3.0,
        "running_requests": 2.0,
        "kv_cache_utilization": 0.25,
        "inflight_requests": 0.0,
        "ready": 1.0,
        "ejected": 0.0,
    }
    assert await router.sample("epp_endpoint_ready", endpoint=other.address) == 1.0


async def test_i08_every_family_that_is_defined_is_on_the_page(stage):
    _, router = stage
    page = (await router.client.get("/metrics")).text
    families = [
        v
        for module in (families_own, families_compat)
        for v in vars(module).values()
        if isinstance(v, Family)
    ]

    assert len(families) > 60
    assert [family.name for family in families if f"# TYPE {family.name} " not in page] == []
