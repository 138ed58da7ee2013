"""A router on record, and the replay of it: every pick and every number of every scorer again."""

import asyncio
import random
import signal
import zlib

import httpx
import pytest

from epp.app.observers import _hits
from epp.config import load_config
from epp.observability.decisions import DecisionLog
from epp.recording import framing
from epp.simulate.replayed import replay_file
from tests.e2e.kit import LONG_TEXT, ROOT, eventually

RANDOM_TIES = """
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {type: approx-prefix-cache-producer, name: gpu}
- {type: prefix-cache-scorer, name: prefix, parameters: {prefixMatchInfoProducerName: gpu}}
- {type: queue-scorer}
- {type: session-affinity-scorer}
- {type: weighted-random-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: prefix, weight: 2}, {pluginRef: queue-scorer}, {pluginRef: session-affinity-scorer},
            {pluginRef: weighted-random-picker}]
"""
CONFIGS = {
    "default": (ROOT / "config/default.yaml").read_text(),
    "tiered": (ROOT / "config/tiered-prefix-cpu.yaml").read_text(),
    "ttft-cost": (ROOT / "config/ttft-cost.yaml").read_text(),
    "random-ties": RANDOM_TIES,
}
SECRET = "sk-nobody-may-read-this"
QUESTION = "What did the committee decide?"


async def send(router, number, chosen):
    """One request: a list of prompts, token ids, a question, a stored response, or a chat."""
    text = f"{LONG_TEXT[: chosen.choice([300, 2_000, 9_000])]} {QUESTION} {number % 7}"
    headers = {"authorization": f"Bearer {SECRET}", "x-session-token": "MTI3LjAuMC4xOjE="}
    fields = {"max_tokens": chosen.randint(1, 12), "stream": chosen.random() < 0.5}
    kind = number % 6
    if kind == 0:
        body = {"prompt": [text, text[:500]], **fields}
        return await router.client.post("/v1/completions", json=body, headers=headers)
    if kind == 1:
        return await router.client.post("/v1/completions", json={"prompt": list(range(700)), **fields})
    if kind == 2:
        body = {"messages": [{"role": "user", "content": text}]}
        return await router.client.post("/pick", params={"commit": number % 2}, json=body)
    if kind == 3:
        first = await router.client.post("/v1/responses", json={"input": text, "max_output_tokens": 4})
        again = {"input": "go on", "previous_response_id": first.json().get("id"), "max_output_tokens": 4}
        return await router.client.post("/v1/responses", json=again)
    return await router.chat(text, headers=headers, **fields)


async def load(router, seed):
    """Requests of several kinds, twelve at a time."""
    chosen = random.Random(seed)
    for start in range(0, 60, 12):
        sent = [send(router, number, chosen) for number in range(start, start + 12)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {httpx.Response, httpx.RemoteProtocolError}


async def stopped(router):
    """As after SIGTERM, which lets what is in flight end."""
    while not router.serving.done():
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait({router.serving}, timeout=0.01)


def replay(path, config=None):
    """What came of it, and the receipts of its decision log."""
    log = DecisionLog(1_000, lambda: 0.0, _hits)
    return replay_file(path, config, lambda record: log.observe([record])), receipts(log.render(1_000))


def receipts(lines):
    """Receipts by request."""
    return {line["request_id"]: line["receipt"] for line in lines}


async def recorded(fleet, route, tmp_path, config, **settings):
    """Load, failures and a lost server on record; the router, after its end, and its decision log."""
    servers = await fleet(3, gpu_blocks=600, cpu_blocks=2_000)
    router = await route(*servers, config=config, seed=None, record=str(tmp_path / "run.rec"), **settings)
    await router.know()
    await load(router, 1)
    servers[0].core.faults.add("status=503", times=5)
    servers[2].core.faults.add("truncate=1", times=2)
    await load(router, 2)
    await servers[1].kill()
    await load(router, 3)
    live = receipts((await router.client.get("/debug/decisions?limit=1000")).json())
    await stopped(router)
    return live


@pytest.mark.parametrize("name", sorted(CONFIGS))
async def test_a_replay_decides_as_the_router_did(fleet, route, tmp_path, name):
    live = await recorded(fleet, route, tmp_path, load_config(CONFIGS[name], name))

    told, again = replay(tmp_path / "run.rec")

    assert (told.different, told.differences, told.complete) == (0, (), True), told
    assert told.decisions >= 200
    assert again == live
    assert len(live) >= 150


async def test_neither_prompts_nor_credentials_are_on_record(fleet, route, tmp_path):
    await recorded(fleet, route, tmp_path, load_config(RANDOM_TIES, "random-ties"))

    with (tmp_path / "run.rec").open("rb") as stream:
        assert stream.readline() == b"epp recording 1\n"
        content = b""
        while start := stream.read(8):
            content += zlib.decompress(stream.read(framing._FRAME.unpack(start)[0]))

    assert b"random-ties" in content
    assert [text for text in (SECRET, QUESTION, "committee", "Bearer") if text.encode() in content] == []
    assert (tmp_path / "run.rec").stat().st_mode & 0o777 == 0o600


async def test_a_reload_is_on_record(fleet, route, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGS["tiered"])
    shadow = load_config(CONFIGS["default"], "shadow")
    files = {"config": str(file), "config_interval_s": 0.02}
    servers = await fleet(2, gpu_blocks=600)
    config = load_config(CONFIGS["tiered"], str(file))
    router = await route(
        *servers, config=config, shadow=shadow, files=files, record=str(tmp_path / "run.rec")
    )
    await router.know()
    await load(router, 1)
    file.write_text(CONFIGS["ttft-cost"])

    async def reloaded():
        return await router.sample("epp_config_reloads_total", result="success")

    await eventually(reloaded)
    await load(router, 2)
    await stopped(router)

    told, _ = replay(tmp_path / "run.rec")

    assert (told.different, told.complete) == (0, True), told
    assert told.notes == ("reloads of the configuration, done again: 1",)
