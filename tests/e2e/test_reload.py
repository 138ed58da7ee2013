"""The configuration changes while requests run."""

import asyncio

import pytest

from epp.app.files import read_configurations
from epp.config import Settings
from tests.e2e.kit import LONG_TEXT, chat, eventually

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- {{type: approx-prefix-cache-producer, name: gpu, parameters: {{blockSize: {block}}}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: gpu}}}}
schedulingProfiles:
- name: default
  plugins:
  - {{pluginRef: queue-scorer, weight: {queue}}}
  - {{pluginRef: prefix-cache-scorer, weight: {prefix}}}
"""


class ConfigFile:
    """The file; `hash` is that of what was put last."""

    def __init__(self, path):
        self.path = path

    def put(self, text=CONFIG, **values):
        following = self.path.with_name("next")
        following.write_text(text.format(**({"block": 256, "queue": 2, "prefix": 3} | values)))
        following.rename(self.path)
        return self

    @property
    def hash(self):
        return read_configurations(Settings(config=str(self.path))).live.hash


@pytest.fixture
def config_file(tmp_path):
    return ConfigFile(tmp_path / "config.yaml").put()


@pytest.fixture
def follow(route):
    """A router that follows configuration files closely."""

    async def start(*servers, file, shadow=None, **changes):
        names = {
            "config": str(file.path),
            "shadow_config": shadow and str(shadow.path),
            "config_interval_s": 0.02,
        }
        found = read_configurations(Settings(**names))
        return await route(*servers, config=found.live, shadow=found.shadow, files=names, **changes)

    return start


async def in_effect(router, file):
    wanted = file.hash

    async def same():
        return (await router.client.get("/readyz")).json()["detail"]["config_hash"] == wanted

    await eventually(same)


async def test_g10_under_traffic_no_request_is_lost_and_conversations_stay_where_they_are(
    fleet, follow, config_file
):
    servers = await fleet(3)
    router = await follow(*servers, file=config_file, slow_start_s=0.0)
    await router.know("sim/llama-8b")
    homes = {}
    for n in range(6):
        answer = await router.chat(f"{n} {LONG_TEXT}")
        homes[n] = answer.headers["x-epp-endpoint"]
    entries = await router.sample("epp_index_entries")
    stop, results = asyncio.Event(), []

    async def client(n):
        while not stop.is_set():
            answer = await router.chat(f"{n} {LONG_TEXT}")
            results.append((answer.status_code, n, answer.headers.get("x-epp-endpoint")))

    clients = [asyncio.create_task(client(n)) for n in range(6)]
    for weight in range(4, 9):
        config_file.put(prefix=weight)
        await in_effect(router, config_file)
        before = len(results)
        await eventually(lambda before=before: len(results) > before + 12)
    stop.set()
    await asyncio.gather(*clients)

    assert {status for status, _, _ in results} == {200}
    assert all(endpoint == homes[n] for _, n, endpoint in results)
    assert await router.sample("epp_index_entries") >= entries > 0
    assert await router.sample("epp_config_reloads_total", result="success") == 5.0
    assert await router.sample("epp_inflight_requests") == 0.0


async def test_a_change_of_the_block_size_under_traffic_starts_empty_and_loses_no_request(
    fleet, follow, config_file
):
    servers = await fleet(2)
    router = await follow(*servers, file=config_file, slow_start_s=0.0)
    await router.know("sim/llama-8b")
    stop, results = asyncio.Event(), []

    async def client(n):
        while not stop.is_set():
            body = chat(f"{n} {LONG_TEXT}", stream=True, max_tokens=8)
            async with router.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                lines = [line async for line in answer.aiter_lines() if line]
            results.append((answer.status_code, lines[-1]))

    clients = [asyncio.create_task(client(n)) for n in range(4)]
    for block in (128, 512, 64, 256):
        config_file.put(block=block)
        await in_effect(router, config_file)
        before = len(results)
        await eventually(lambda before=before: len(results) > before + 12)
    stop.set()
    await asyncio.gather(*clients)

    assert set(results) == {(200, "data: [DONE]")}
    assert await router.sample("epp_index_entries") > 0
    assert await router.sample("epp_inflight_requests") == 0.0
    assert await router.sample("epp_endpoint_inflight_uncached_tokens") == 0.0


async def test_g10_faulty_and_deleted_files_leave_what_was_and_are_told(fleet, follow, config_file):
    [server] = await fleet(1)
    router = await follow(server, file=config_file)
    await router.know("sim/llama-8b")
    good = config_file.hash
    config_file.put("plugins: [")

    async def failed(count):
        return await router.sample("epp_config_reloads_total", result="failure") == count

    await eventually(lambda: failed(1.0))
    ready = await router.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["detail"]["config_hash"] == good
    assert "is not valid YAML" in ready.json()["detail"]["config_problems"][str(config_file.path)]
    assert await router.sample("epp_config_last_reload_success") == 0.0
    assert (await router.chat()).status_code == 200
    config_file.path.unlink()
    await eventually(lambda: failed(2.0))
    assert (await router.chat()).status_code == 200
    config_file.put(prefix=9)
    await in_effect(router, config_file)

    assert await router.sample("epp_config_last_reload_success") == 1.0
    assert await router.sample("epp_config_info", hash=config_file.hash) == 1.0
    assert (await router.client.get("/debug/config")).json()["hash"] == config_file.hash


async def test_decisions_from_before_a_change_are_shown_as_they_were(fleet, follow, config_file):
    [server] = await fleet(1)
    router = await follow(server, file=config_file)
    await router.know("sim/llama-8b")
    await router.chat(LONG_TEXT)
    await router.chat(LONG_TEXT)
    before = (await router.decisions(1))[0]["receipt"]
    config_file.put(block=128, queue=7)
    await in_effect(router, config_file)
    after = (await router.decisions(1))[0]["receipt"]

    assert after == before
    assert before["candidates"][0]["predicted_hit_tokens"]["gpu"] > 1000


async def test_the_endpoint_file_of_another_configuration_is_followed_or_refused(
    fleet, follow, config_file, tmp_path
):
    one, two = await fleet(2)
    with_file = (
        CONFIG.replace(
            "- type: queue-scorer\n",
            (
                "- type: queue-scorer\n- {{type: file-discovery, parameters: {{path: {path}, watchFile: true}}}}\n"
            ),
        )
        + "dataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n"
    )
    router = await follow(one, file=config_file)
    endpoints = tmp_path / "endpoints.yaml"
    good = config_file.hash
    config_file.put(with_file, path=endpoints, prefix=9)

    async def problem():
        return (await router.client.get("/readyz")).json()["detail"]["config_problems"]

    found = await eventually(problem)
    assert next(iter(found.values())).startswith(f"file {endpoints}: {endpoints} cannot be read")
    assert (await router.client.get("/readyz")).json()["detail"]["config_hash"] == good
    endpoints.write_text(f"- {two.url}\n")
    await in_effect(router, config_file)

    detail = (await router.client.get("/readyz")).json()["detail"]
    assert sorted(detail["endpoints"]) == sorted([one.address, two.address])
    assert list(detail["discovery"]) == ["endpoint", f"file {endpoints}"]


async def test_a_shadow_is_compared_on_live_requests_and_followed(fleet, follow, config_file, tmp_path):
    servers = await fleet(2)
    shadow = ConfigFile(tmp_path / "shadow.yaml").put()
    router = await follow(*servers, file=config_file, shadow=shadow, slow_start_s=0.0)
    await router.know("sim/llama-8b")
    for n in range(10):
        assert (await router.chat(f"{n % 2} {LONG_TEXT}")).status_code == 200
    assert await router.sample("epp_shadow_requests_total", verdict="same") == 10.0
    picks = [await router.sample("epp_shadow_predicted_hit_tokens_total", pick=p) for p in ("shadow", "live")]
    assert picks[0] == picks[1] > 0
    shadow.put(block=128, prefix=0)

    async def changed():
        return await router.sample("epp_shadow_config_info", hash=shadow.hash)

    await eventually(changed)
    assert (await router.chat(LONG_TEXT)).status_code == 200

    assert await router.sample("epp_shadow_requests_total") == 11.0
    assert await router.sample("epp_shadow_requests_total", verdict="error") == 0.0
    assert (await router.client.get("/debug/config")).json()["shadow"]["hash"] == shadow.hash
