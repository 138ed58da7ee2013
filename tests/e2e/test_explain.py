"""`epp explain` decides from /debug/state as the router itself does."""

import asyncio
import json

import pytest

from epp.app.files import picker_config
from epp.cli import main
from epp.config import Settings
from tests.e2e.kit import LONG_TEXT, chat, eventually


async def at_rest(router):
    """Whether every endpoint's last scrape shows nothing waiting, running or held."""
    state = (await router.client.get("/debug/state?index=false")).json()["endpoints"]
    return all(not any(e["metrics"][name] for name in ("waiting", "running", "kv_usage")) for e in state)


@pytest.mark.parametrize("config", ["config/default.yaml", "config/tiered-prefix-cpu.yaml"])
async def test_the_receipt_of_a_saved_state_is_the_one_of_the_router(fleet, route, tmp_path, capsys, config):
    servers = await fleet(3, gpu_blocks=400, cpu_blocks=1000, report_cpu_tier=True)
    router = await route(*servers, config=picker_config(Settings(config=config)))
    await router.know("sim/llama-8b")
    for number in range(6):
        await router.chat(f"{number % 4} {LONG_TEXT}")
    await eventually(lambda: at_rest(router))  # no scrape may change the metrics between pick and state
    body = chat(f"2 {LONG_TEXT} What else?")
    (tmp_path / "request.json").write_text(json.dumps(body))

    picked = (await router.client.post("/pick", json=body)).json()
    (tmp_path / "state.json").write_bytes((await router.client.get("/debug/state")).content)
    words = ["--config", config, "--endpoints-state", str(tmp_path / "state.json"), "--format", "json"]
    status = await asyncio.to_thread(main, ["explain", *words, str(tmp_path / "request.json")])
    explained = json.loads(capsys.readouterr().out)

    assert status == 0
    assert explained["endpoints"] == picked["endpoints"]
    assert explained["receipt"]["candidates"] == picked["receipt"]["candidates"]
    assert sum(c["predicted_hit_tokens"]["gpu"] > 1500 for c in picked["receipt"]["candidates"]) == 1
