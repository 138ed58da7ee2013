"""`epp serve` as a process: start, refusal to start, drain, signals, and the other ways to run it."""

import asyncio
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.e2e.kit import ROOT, chat, eventually, free_port

LOOPBACK = ("--host", "127.0.0.1", "--port", "0")


@pytest.fixture
def serve(spawn, connect):
    """Starts the router in front of servers; returns the process and a client of it."""

    async def start(*servers, arguments=(), **environment):
        endpoints = [word for server in servers for word in ("--endpoint", server.url)]
        process = await spawn("serve", *LOOPBACK, *endpoints, *arguments, **environment)
        return process, await connect(await process.url())

    return start


async def draining(client):
    """The answer of /readyz as soon as it is no longer 200."""
    answer = await client.get("/readyz")
    return answer if answer.status_code != 200 else None


async def test_a_drain_fails_readiness_at_once_serves_on_and_ends_with_0(fleet, serve):
    [server] = await fleet(time_scale=4.0)
    process, client = await serve(server, arguments=("--drain-timeout", "15s"))

    async with client.stream(
        "POST", "/v1/chat/completions", json=chat(stream=True, max_tokens=900)
    ) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        process.signal(signal.SIGTERM)
        ready = await eventually(lambda: draining(client))
        alive = await client.get("/healthz")
        late = await client.post("/v1/chat/completions", json=chat("late"))
        rest = [line async for line in lines]
    status = await process.ended()

    assert ready.status_code == 503
    assert ready.json()["reasons"] == ["shutting down"]
    assert alive.status_code == 200
    assert late.status_code == 200
    assert [line for line in rest if line][-1] == "data: [DONE]"
    assert status == 0
    assert [line["message"] for line in process.log()][-2:] == ["draining", "epp stopped"]


async def test_what_is_left_at_the_drain_timeout_is_told_so(fleet, serve):
    [server] = await fleet()
    server.core.faults.add("hang")
    process, client = await serve(server, arguments=("--drain-timeout", "1s"))

    waiting = asyncio.create_task(client.post("/v1/chat/completions", json=chat()))
    await eventually(lambda: len(server.core.faults) == 0)
    process.signal(signal.SIGTERM)
    answer = await waiting
    status = await process.ended()

    assert answer.status_code == 503
    assert answer.headers["x-llm-d-request-dropped-reason"] == "rejected-shutting-down"
    assert answer.json()["error"]["code"] == "shutting_down"
    assert status == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_does_not_wait_for_the_drain_timeout(fleet, serve, number):
    [server] = await fleet()
    server.core.faults.add("hang")
    process, client = await serve(server, arguments=("--drain-timeout", "1h"))

    waiting = asyncio.create_task(client.post("/v1/chat/completions", json=chat()))
    await eventually(lambda: len(server.core.faults) == 0)
    process.signal(number)
    await eventually(lambda: draining(client))
    process.signal(number)

    assert (await waiting).status_code == 503
    assert await process.ended() == 0


async def test_idle_it_ends_at_once_with_0(fleet, serve):
    [server] = await fleet()
    process, _ = await serve(server, arguments=("--drain-timeout", "1h"))

    process.signal(signal.SIGTERM)

    assert await process.ended() == 0


@pytest.mark.parametrize("flag", ["--port", "--admin-port"])
async def test_a_taken_port_is_a_message_and_1(spawn, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        process = await spawn(
            "serve", "--endpoint", "http://127.0.0.1:1", "--host", "127.0.0.1", "--port", "0", flag, number
        )
        status = await process.ended()

    assert status == 1
    assert process.stderr.endswith(f"epp: cannot listen on 127.0.0.1:{number}: Address already in use\n")
    assert "Traceback" not in process.stderr


async def test_an_access_log_that_cannot_be_opened_is_a_message_and_2(spawn, tmp_path):
    file = tmp_path / "missing" / "access.log"

    process = await spawn(
        "serve", *LOOPBACK, "--endpoint", "http://127.0.0.1:1", "--access-log-file", str(file)
    )

    assert await process.ended() == 2
    assert f"accessLog.file: {file} cannot be opened: No such file or directory" in process.stderr
    assert "Traceback" not in process.stderr


async def test_a_bad_configuration_is_told_with_all_its_problems_and_2(spawn):
    process = await spawn(
        "serve", "--endpoint", "http://127.0.0.1:1", "--config", "config/invalid/several-faults.yaml"
    )

    assert await process.ended() == 2
    assert process.stderr.startswith("epp: config/invalid/several-faults.yaml: configuration is invalid\n")
    assert len(process.stderr.splitlines()) > 3
    assert "Traceback" not in process.stderr


async def test_bad_settings_of_every_source_are_told_together_and_2(spawn, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("seed: never\n")

    process = await spawn(
        "serve", "--settings", str(settings), "--port", "99999", EPP_LOG_LEVEL="loud", EPP_DRAIN_TIMEOUT="-1s"
    )

    assert await process.ended() == 2
    for name in ("seed", "--port", "EPP_LOG_LEVEL", "EPP_DRAIN_TIMEOUT"):
        assert name in process.stderr
    assert "Traceback" not in process.stderr


async def test_without_an_endpoint_it_is_a_message_that_helps_and_2(spawn):
    process = await spawn("serve")

    assert await process.ended() == 2
    assert "endpoint: no endpoint is configured; give --endpoint http://host:port" in process.stderr


async def test_bare_flags_mean_serve_and_the_variables_of_a_kubernetes_service_are_ignored(
    fleet, spawn, connect, tmp_path
):
    [server] = await fleet()
    settings = tmp_path / "settings.yaml"
    settings.write_text("port: 0\n")

    process = await spawn(
        "--host", "127.0.0.1", "--settings", str(settings), "--endpoint", server.url,
        EPP_PORT="tcp://10.0.0.1:8080", EPP_SERVICE_HOST="10.0.0.1",
    )  # fmt: skip
    client = await connect(await process.url())

    assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200
    notices = [line for line in process.stderr.splitlines() if "EPP_PORT" in line]
    assert notices == [
        "epp: ignored, as they describe a Kubernetes Service: EPP_PORT, EPP_SERVICE_HOST",
    ]


async def test_endpoints_can_come_from_the_environment(fleet, spawn, connect):
    servers = await fleet(2)

    process = await spawn(*LOOPBACK, EPP_ENDPOINT=f"{servers[0].url} {servers[1].url},zone=b")
    client = await connect(await process.url())
    state = (await client.get("/debug/state?index=false")).json()

    assert [endpoint["url"] for endpoint in state["endpoints"]] == [server.url for server in servers]
    assert state["endpoints"][1]["labels"] == {"zone": "b"}


async def test_an_admin_port_takes_the_control_surface_away_from_the_main_one(fleet, serve, connect):
    [server] = await fleet()
    process, client = await serve(server, arguments=("--admin-port", str(free_port())))
    admin = await connect(await process.url("admin_url"))

    on_main = {
        path: (await client.get(path)).status_code
        for path in ("/metrics", "/debug/decisions", "/openapi.json", "/healthz", "/readyz", "/v1/models")
    }
    relayed = await client.post("/v1/chat/completions", json=chat())
    on_admin = {
        path: (await admin.get(path, headers={"x-forwarded-for": "192.0.2.1"})).status_code
        for path in ("/metrics", "/debug/decisions", "/openapi.json", "/healthz", "/readyz", "/v1/models")
    }
    not_relayed = await admin.post("/v1/chat/completions", json=chat())
    process.signal(signal.SIGTERM)

    assert on_main == {
        "/metrics": 403,
        "/debug/decisions": 403,
        "/openapi.json": 403,
        "/healthz": 200,
        "/readyz": 200,
        "/v1/models": 200,
    }
    assert set(on_admin.values()) == {200}
    assert relayed.status_code == 200
    assert not_relayed.status_code == 404
    assert await process.ended() == 0


async def test_sighup_opens_the_access_log_anew(fleet, serve, tmp_path):
    [server] = await fleet()
    log, rotated = tmp_path / "access.log", tmp_path / "access.log.1"
    process, client = await serve(server, arguments=("--access-log-file", str(log)))
    await client.post("/v1/chat/completions", json=chat())
    await eventually(lambda: log.read_text().count("\n") == 1)

    log.rename(rotated)
    process.signal(signal.SIGHUP)
    await eventually(log.exists)
    await client.post("/v1/chat/completions", json=chat())

    await eventually(lambda: log.read_text().count("\n") == 1)
    assert rotated.read_text().count("\n") == 1


async def test_uvicorn_can_serve_the_application(fleet, spawn, connect):
    [server] = await fleet()
    port = free_port()

    process = await spawn(
        "--factory", "epp.app:create_app", "--port", str(port), "--no-access-log",
        module=("uvicorn",), EPP_ENDPOINT=server.url,
    )  # fmt: skip
    client = await connect(f"http://127.0.0.1:{port}")
    await eventually(lambda: "Uvicorn running" in process.stderr or "epp started" in process.stderr)

    async def asked():
        try:
            return await client.post("/v1/chat/completions", json=chat())
        except httpx.ConnectError:
            return None

    answer = await eventually(asked)
    health = await client.get("/healthz")
    process.signal(signal.SIGTERM)
    await process.ended()

    assert answer.status_code == 200
    assert answer.headers["x-epp-endpoint"] == server.address
    assert health.json() == {"status": "ok"}
    assert "Traceback" not in process.stderr


async def test_the_demo_prints_what_to_try_and_ctrl_c_ends_everything(spawn, connect):
    process = await spawn("demo", "--port", "0", "--servers", "2", "--time-scale", "50")
    client = await connect(await process.url())

    await eventually(lambda: "Press Ctrl-C to stop everything." in process.stdout)
    answer = await client.post("/v1/chat/completions", json=chat(), headers={"x-epp-explain": "1"})
    process.signal(signal.SIGINT)

    assert answer.status_code == 200
    assert answer.headers["x-epp-decision"].startswith(answer.headers["x-epp-endpoint"])
    assert f"tour --url {client.base_url}".rstrip("/") in process.stdout
    assert await process.ended() == 0
    host, port = answer.headers["x-epp-endpoint"].split(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))


def test_the_console_script_is_the_same_command():
    script = f"{sys.prefix}/bin/epp"

    done = subprocess.run([script, "--version"], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "epp 0.1.0\n"
