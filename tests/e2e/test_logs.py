"""What the router writes of requests, and what it never writes."""

import json
import signal

import httpx
import pytest

from epp.config.settings import AccessLogSettings
from tests.e2e.kit import LONG_TEXT, chat, eventually

ADMIN_KEY, ENDPOINT_KEY = "sentinel-admin-key", "sentinel-endpoint-key"
CLIENT_KEY, PROMPT = "sk-sentinel-client-key", "sentinel-prompt"


def lines(path):
    """The complete lines of a log of JSON."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


async def test_one_line_a_request_with_the_receipt_in_short(fleet, route, tmp_path):
    [server] = await fleet()
    router = await route(server)
    await router.know("sim/llama-8b")
    await router.chat(LONG_TEXT)
    await router.chat(LONG_TEXT, headers={"x-request-id": "second"}, model="sim/llama-8b")
    await router.chat(model="unknown")

    log = await eventually(lambda: (found := lines(tmp_path / "access.log"))[2:] and found)
    line = log[1]

    assert len(log) == 3
    assert line["request_id"] == "second"
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/chat/completions", 200)
    assert (line["model"], line["endpoint"], line["reason"]) == ("sim/llama-8b", server.address, "complete")
    assert line["cached_tokens"] - 100 < line["predicted_gpu"] <= line["prompt_tokens"]
    assert line["scores"]["gpu-prefix-cache-scorer"] > 0.9
    assert line["total"] > 5.5
    assert line["ms"] >= line["first_byte_ms"] > 0
    assert (log[2]["status"], log[2]["error"], log[2]["reason"]) == (404, "model_not_found", "rejected")
    assert "chain" not in line


async def test_with_the_prefix_setting_a_line_is_the_simulators_input(fleet, route, tmp_path):
    [server] = await fleet()
    file = tmp_path / "prefix.log"
    router = await route(server, access_log=AccessLogSettings(file=str(file), prefix=True))
    await router.know("sim/llama-8b")
    await router.chat(LONG_TEXT)
    await router.chat(LONG_TEXT + " And what else?")

    first, second = await eventually(lambda: (found := lines(file))[1:] and found)

    assert second["arrival"] >= first["arrival"] > 1.7e9
    # More than 2,000 tokens have four hashes, one each 512 tokens; the longer prompt shares them.
    assert len(first["chain"]) >= 4
    assert second["chain"][: len(first["chain"])] == first["chain"]
    assert {len(value) for value in first["chain"]} == {16}
    assert (first["prompt_tokens"] > 2000, first["completion_tokens"]) == (True, 4)


async def test_without_access_log_nothing_is_written(fleet, route, tmp_path):
    [server] = await fleet()
    file = tmp_path / "off.log"
    router = await route(server, access_log=AccessLogSettings(enabled=False, file=str(file)))
    await router.chat()
    await router.decisions(1)

    assert file.read_text() == ""


@pytest.fixture
async def secretive(fleet, spawn, connect, tmp_path):
    """A server, a router as a process that logs all it can, and a client with a key."""
    [server] = await fleet()
    key_file = tmp_path / "admin.key"
    key_file.write_text(ADMIN_KEY)
    process = await spawn(
        "serve", "--host", "127.0.0.1", "--port", "0", "--endpoint", server.url, "--log-level", "debug",
        "--admin-key-file", str(key_file), "--access-log-prefix",
        EPP_ENDPOINT_KEY=ENDPOINT_KEY,
    )  # fmt: skip
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "x-epp-admin-key": ADMIN_KEY, "cookie": PROMPT}
    return server, process, await connect(await process.url(), headers=headers)


async def test_prompts_and_credentials_never_reach_a_log_or_a_page(secretive):
    server, process, client = secretive
    path = "/v1/chat/completions"
    bodies = [
        chat(PROMPT, cache_salt=PROMPT),
        chat(PROMPT, stream=True),
        chat(PROMPT, model=17),
        chat(PROMPT, max_tokens=10**6),
        {"messages": PROMPT},
        {"messages": [{"role": PROMPT, "content": {"type": PROMPT}}]},
    ]
    answers = [await client.post(path, json=body) for body in bodies]
    answers.append(await client.post(path, content=f'{{"messages": "{PROMPT}'))
    answers.append(await client.post("/pick", json=chat(PROMPT)))
    for fault in ("reset-before-head", "garbage-head", "engine-dead", "status=503"):
        server.core.faults.add(fault, times=3)
        answers.append(await client.post(path, json=chat(PROMPT)))
    server.core.faults.clear()
    server.core.faults.add("reset-after=1")
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post(path, json=chat(PROMPT, stream=True))
    pages = [
        (await client.get(page)).text
        for page in (
            "/metrics",
            "/debug/decisions",
            "/debug/state",
            "/debug/config",
            "/readyz",
            "/openapi.json",
        )
    ]
    process.signal(signal.SIGTERM)
    await process.ended()

    own_errors = [answer.text for answer in answers if "x-epp-endpoint" not in answer.headers]
    written = "\n".join([process.stdout, process.stderr, *pages, *own_errors])
    assert written.count('"reason":"complete"') > 3
    assert process.log()[-1]["message"] == "epp stopped"
    assert [word for word in (ADMIN_KEY, ENDPOINT_KEY, CLIENT_KEY, PROMPT) if word in written] == []
    assert "sentinel" not in written


async def test_the_endpoints_get_the_routers_key_in_place_of_the_clients(secretive):
    server, _, client = secretive

    await client.post("/v1/chat/completions", json=chat())
    seen = dict(server.core.seen[-1].headers)

    assert seen[b"authorization"] == f"Bearer {ENDPOINT_KEY}".encode()
    assert b"x-epp-admin-key" not in seen
