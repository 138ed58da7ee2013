"""Administration of simulated engines through the router, and what the router knows afterwards."""

import pytest

from tests.e2e.kit import LONG_TEXT, eventually

MODEL = "sim/llama-8b"


@pytest.fixture
async def stage(fleet, route):
    """Two servers with both tiers, and a router that may administer them."""
    servers = await fleet(2, cpu_blocks=4096, report_cpu_tier=True, dev_mode=True, runtime_lora=True)
    router = await route(*servers, allow_engine_admin=True)
    await router.know(MODEL)
    return servers, router


async def ask(router):
    """Predicted and real hits of one long request: GPU, CPU, cached."""
    answer = await router.chat(LONG_TEXT, max_tokens=1)
    decision = (await router.client.get("/debug/decisions?limit=1")).json()[0]
    cached = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return decision["predicted_gpu"], decision["predicted_cpu"], cached


async def test_a_reset_through_us_drops_the_gpu_tier_and_the_cpu_tier_still_serves(stage):
    _, router = stage
    await ask(router)
    answer = await router.client.post("/reset_prefix_cache")
    gpu, cpu, cached = await ask(router)

    assert answer.status_code == 200
    assert [result["body"] for result in answer.json()["results"].values()] == [{"success": True}] * 2
    assert gpu == 0
    assert cpu > 2000
    assert cached > 2000


async def test_a_reset_of_the_external_tier_drops_everything(stage):
    _, router = stage
    await ask(router)
    await router.client.post("/reset_prefix_cache?reset_external=true")

    assert await ask(router) == (0, 0, 0)


async def test_an_endpoint_that_is_put_to_sleep_gets_no_requests_until_it_is_woken(stage):
    servers, router = stage
    first, second = servers
    answer = await router.client.post("/sleep?level=1", headers={"x-epp-target": first.address})

    async def state():
        return (await router.client.get("/readyz")).json()["detail"]["endpoints"][first.address]

    async def asleep():
        return await state() == "asleep"

    async def awake():
        return await state() == "ready"

    await eventually(asleep)
    served = {(await router.chat(f"Question {n}")).headers["x-epp-endpoint"] for n in range(6)}
    asked = (await router.client.get("/is_sleeping")).json()["results"]
    await router.client.post("/wake_up", headers={"x-epp-target": first.address})

    assert answer.status_code == 200
    assert answer.headers["x-epp-endpoint"] == first.address
    assert served == {second.address}
    assert {address: told["body"]["is_sleeping"] for address, told in asked.items()} == {
        first.address: True,
        second.address: False,
    }
    await eventually(awake)


async def test_an_adapter_that_is_loaded_everywhere_can_be_asked_for_at_once(stage):
    servers, router = stage
    body = {"lora_name": "support", "lora_path": "/adapters/support"}
    loaded = await router.client.post("/v1/load_lora_adapter", json=body)

    async def listed():
        return [m["id"] for m in (await router.client.get("/v1/models")).json()["data"]]

    async def served_by(count):
        state = (await router.client.get("/debug/state?index=false")).json()["endpoints"]
        return sum(any(m["id"] == "support" for m in e["models"]) for e in state) == count

    assert set(loaded.json()["results"]) == {server.address for server in servers}
    # Far sooner than the next regular look at the models, which comes once a minute.
    await eventually(lambda: served_by(2))
    assert await listed() == [MODEL, "support"]
    assert (await router.chat(model="support")).status_code == 200

    await router.client.post("/v1/unload_lora_adapter", json={"lora_name": "support"})
    await eventually(lambda: served_by(0))
    assert (await router.chat(model="support")).status_code == 404


async def test_administration_is_written_to_the_access_log_and_answers_of_servers_without_it_pass(
    fleet, route, tmp_path
):
    servers = await fleet(2)
    router = await route(*servers, allow_engine_admin=True)
    answer = await router.client.post("/sleep")

    assert answer.status_code == 404
    assert [told["body"] for told in answer.json()["results"].values()] == [{"detail": "Not Found"}] * 2
    await eventually(lambda: '"/sleep"' in (tmp_path / "access.log").read_text())


async def test_closed_administration_reaches_nobody(fleet, route):
    [server] = await fleet(dev_mode=True)
    router = await route(server)
    await router.know(MODEL)

    assert (await router.client.post("/sleep")).status_code == 403
    assert (await router.client.post("/v1/load_lora_adapter", json={})).status_code == 403
    assert server.core.sleep_level == 0


async def test_load_counts_requests_in_flight_at_all_endpoints(fleet, route):
    servers = await fleet(2, time_scale=1.0)
    router = await route(*servers)
    await router.know(MODEL)
    idle = (await router.client.get("/load")).json()
    async with router.client.stream(
        "POST", "/v1/completions", json={"prompt": "a", "max_tokens": 4000, "stream": True}
    ) as answer:
        pieces = answer.aiter_raw()  # one that nobody holds would be collected, and close the answer
        await anext(pieces)
        busy = (await router.client.get("/load")).json()

    assert (idle, busy) == ({"server_load": 0}, {"server_load": 1})
