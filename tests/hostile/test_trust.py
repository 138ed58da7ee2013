"""Whom the router connects to, what it tells of what it was given, and what it needs of its machine."""

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from epp.config import Settings
from epp.config.settings import AccessLogSettings
from epp.endpoints.spec import parse_endpoints
from tests.app.endpoint import ModelEndpoint
from tests.e2e.kit import chat, eventually, new_client, running_process, running_router
from tests.hostile.kit import LANES
from tests.proxy.harness import RawClient

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def stack():
    """What ends with the test, in the reverse order of its beginning."""
    async with AsyncExitStack() as entered:
        yield entered


class Trap:
    """Listens, and counts who connects."""

    def __init__(self) -> None:
        self.visitors = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._on_visitor, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_exc):
        self._server.close()

    async def _on_visitor(self, reader, writer):
        self.visitors += 1
        writer.close()


HEADERS = (
    "Host", "X-Forwarded-Host", "X-Forwarded-For", "X-Forwarded-Server", "X-Original-Url", "X-Rewrite-Url", "X-Real-Ip",
    "Forwarded", "Via", "Referer", "Origin", "Destination", "X-Gateway-Destination-Endpoint",
    "X-Gateway-Destination-Endpoint-Subset", "X-Gateway-Destination-Endpoint-Served", "X-Prefiller-Host-Port",
    "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Kv-Cache-Source-Host-Port", "X-Epp-Endpoint",
    "X-Epp-Target", "X-Llm-D-Endpoint", "X-Session-Token", "X-Session-Id", "X-Http-Host-Override", "X-Host",
    "Proxy-Host", "Base-Url", "Location",
)  # fmt: skip


@pytest.mark.e2e
@pytest.mark.parametrize("lane", LANES)
async def test_nothing_in_a_request_makes_the_router_connect_to_an_address_of_the_clients(stack, lane):
    endpoint = await stack.enter_async_context(ModelEndpoint())
    trap = await stack.enter_async_context(Trap())
    settings = Settings(
        host="127.0.0.1",
        port=0,
        lane=lane,
        endpoint=parse_endpoints([endpoint.url]),
        allow_engine_admin=True,
        drain_timeout_s=2.0,
        access_log=AccessLogSettings(enabled=False),
    )
    router = await stack.enter_async_context(running_router(settings))
    await router.know("m")
    there = trap.address
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"http://{there}/x"}}]}
    answers = [
        await router.client.post("/v1/chat/completions", json=chat(), headers={n: there}) for n in HEADERS
    ]
    answers += [await router.client.post("/pick", json=chat(), headers={n: there}) for n in HEADERS]
    answers += [
        await router.client.post(
            "/v1/chat/completions", json={"messages": [image], "base_url": f"http://{there}"}
        ),
        await router.client.post("/sleep", headers={"X-Epp-Target": there}),
    ]
    port = int(router.url.rpartition(":")[2])
    for target in (
        f"http://{there}/v1/models",
        f"http://{there}/x",
        f"//{there}/x",
        f"/http://{there}/x",
        "/x?url=http://" + there,
    ):
        async with await RawClient.connect(port) as client:
            await client.send(
                f"POST {target} HTTP/1.1\r\nHost: {there}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            answers.append(await client.read_response())

    statuses = [getattr(answer, "status_code", None) or answer.status for answer in answers]
    assert set(statuses) <= {200, 404, 405}
    assert answers[len(HEADERS) * 2 + 1].json()["error"]["code"] == "endpoint_not_found"
    assert len(endpoint.to("/v1/chat/completions")) == len(HEADERS) + 1
    assert trap.visitors == 0


SECRET = "sentinel-5e3a"


@pytest.mark.e2e
@pytest.mark.parametrize(("level", "form"), [("debug", "human"), ("info", "json"), ("error", "human")])
async def test_no_level_of_the_log_holds_what_clients_sent(stack, tmp_path, level, form):
    """Prompts, keys, cookies, queries, forms, unknown fields; `tests/e2e/test_logs.py` has the level debug as JSON."""
    endpoint = await stack.enter_async_context(ModelEndpoint())
    keys = tmp_path / "keys"
    keys.write_text(f"team={SECRET}-client\n")
    process = await stack.enter_async_context(
        running_process(
            tmp_path, "serve", "--host", "127.0.0.1", "--port", "0", "--endpoint", endpoint.url, "--endpoint",
            "http://127.0.0.1:1", "--log-level", level, "--log-format", form, "--api-keys-file", str(keys),
            "--access-log-prefix", "--receipts-loopback",
            EPP_ENDPOINT_KEY=f"{SECRET}-endpoint", EPP_ADMIN_KEY=f"{SECRET}-admin",
        )
    )  # fmt: skip
    port = await _port(process)
    headers = {
        "authorization": f"Bearer {SECRET}-client", "x-api-key": f"{SECRET}-wrong", "cookie": SECRET, "x-anything": SECRET,
        "x-epp-admin-key": f"{SECRET}-admin", "x-epp-explain": "1", "x-session-id": SECRET,
    }  # fmt: skip
    client = await stack.enter_async_context(new_client(f"http://127.0.0.1:{port}", headers=headers))
    form_data = f'--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n{SECRET}\r\n--x--\r\n'
    answers = [
        await client.post("/v1/chat/completions", json=chat(SECRET, user=SECRET, unknown={SECRET: SECRET})),
        await client.post("/v1/chat/completions", json=chat(SECRET, stream=True, cache_salt=SECRET)),
        await client.post(
            "/v1/chat/completions", json={"messages": [{"role": SECRET, "content": {SECRET: 1}}]}
        ),
        await client.post(
            "/v1/chat/completions", json={"messages": SECRET, "stream": SECRET, "model": {SECRET: 1}}
        ),
        await client.post("/v1/chat/completions", content=f'{{"messages":"{SECRET}'),
        await client.post("/v1/chat/completions", content=SECRET, headers={"content-encoding": "gzip"}),
        await client.post("/v1/completions", json={"prompt": SECRET}, params={"key": SECRET}),
        await client.post(
            "/v1/audio/transcriptions",
            content=form_data,
            headers={"content-type": "multipart/form-data; boundary=x"},
        ),
        await client.get("/v1/realtime", params={"api_key": SECRET}),
        await client.post("/pick", json=chat(SECRET), headers={"x-epp-path": f"/v1/{SECRET[:0]}completions"}),
        await client.post(
            "/v1/chat/completions", json=chat(SECRET), headers={"authorization": f"Bearer {SECRET}"}
        ),
        await client.get("/debug/decisions", params={"limit": SECRET}),
    ]
    async with await RawClient.connect(port) as raw:
        await raw.send(
            f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: {SECRET}\r\nBad Name: {SECRET}\r\n\r\n".encode()
        )
        refused = await raw.read_to_end()
    pages = [
        (await client.get(page)).text
        for page in (
            "/metrics",
            "/debug/decisions?limit=100",
            "/debug/state",
            "/debug/config",
            "/readyz",
            "/openapi.json",
        )
    ]
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0

    said = [answer.text + str(answer.headers) for answer in answers]
    assert {answer.status_code for answer in answers} >= {200, 400}
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert '"receipt"' in pages[1]
    written = "\n".join([process.stdout, process.stderr, refused.decode(), *pages, *said])
    assert written.count("/v1/chat/completions") > 4
    assert [line for line in written.splitlines() if SECRET in line] == []


async def _port(process):
    """Where it listens, found without its log, which may be silent."""

    def listening():
        inodes = _sockets_of(process.process.pid)
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                return int(fields[1].rpartition(":")[2], 16)
        return 0

    port = await eventually(listening)

    async def ready():
        async with new_client(f"http://127.0.0.1:{port}") as client:
            return (await client.get("/readyz")).status_code == 200

    await eventually(ready)
    return port


def _sockets_of(pid):
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = str(descriptor.readlink())
        except OSError:
            continue
        if link.startswith("socket:["):
            found.add(link[8:-1])
    return found


def _user_of(pid):
    return re.search(r"^Uid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]


def dockerfile():
    """The instructions of the last stage."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    last = re.split(r"^FROM ", text, flags=re.MULTILINE)[-1]
    return [line.split(None, 1) for line in last.splitlines()[1:] if line and not line.startswith("#")]


def test_the_container_runs_without_root_and_as_pid_1():
    instructions = dict(dockerfile())

    user, _, group = instructions["USER"].partition(":")
    assert int(user) >= 10_000
    assert int(group) >= 10_000
    assert json.loads(instructions["ENTRYPOINT"]) == ["epp"]
    assert json.loads(instructions["CMD"]) == ["serve"]
    assert "PYTHONDONTWRITEBYTECODE=1" in instructions["ENV"]
    assert "ADD" not in instructions
    assert "VOLUME" not in instructions
    assert "RUN" not in instructions


def test_every_base_image_has_a_full_version():
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert bases
    assert [base for base in bases if not re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+-[\w.-]+", base)] == []


WATCHED = """\
import os, sys
def hook(event, args):
    if event == "open" and isinstance(args[0], str) and args[0] not in ("/dev/null",):
        mode, flags = args[1] or "", args[2] or 0
        if set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            os.write(2, f"WRITES {args[0]}\\n".encode())
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "tempfile.mkstemp"):
        os.write(2, f"WRITES {event} {args}\\n".encode())
sys.addaudithook(hook)
sys.dont_write_bytecode = True
from epp.cli import main
# What is imported late may lie where only root may read: here, not in a container.
import encodings.idna, importlib.readers, uvicorn.lifespan.off, uvicorn.protocols.http.httptools_impl
import epp.app.server, epp.config.builtin, prometheus_client.openmetrics.exposition
epp.config.builtin.builtin_config()
ROOTLESS
sys.exit(main(sys.argv[1:]))
"""
ROOTLESS = "os.setgroups([]); os.setgid(65532); os.setuid(65532)"


@pytest.mark.e2e
async def test_serving_writes_no_file_and_needs_no_root(tmp_path):
    """As in a container on a read-only tree; what cannot be tried without root is the change of the user."""
    folder = tmp_path / "tree"
    folder.mkdir(mode=0o555)
    code = WATCHED.replace("ROOTLESS", ROOTLESS if os.geteuid() == 0 else "")
    async with ModelEndpoint() as endpoint:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, "serve", "--host", "127.0.0.1", "--port", "0", "--endpoint", endpoint.url,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        seen = []
        try:
            async with asyncio.timeout(60):
                while not any('"listening"' in line for line in seen):
                    line = (await process.stderr.readline()).decode()
                    assert line, "".join(seen)
                    seen.append(line)
            url = json.loads(seen[-1])["url"]
            user = _user_of(process.pid)
            async with new_client(url) as client:
                answer = await client.post(
                    "/v1/chat/completions", json=chat(), headers={"x-epp-explain": "1"}
                )
                pages = [
                    await client.get(page)
                    for page in ("/metrics", "/debug/state", "/readyz", "/openapi.json")
                ]
            process.send_signal(signal.SIGTERM)
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    assert answer.status_code == 200
    assert {page.status_code for page in pages} == {200}
    assert process.returncode == 0
    assert b"/v1/chat/completions" in out
    assert [line for line in [*seen, *err.decode().splitlines()] if "WRITES" in line] == []
    assert list(folder.iterdir()) == []
    assert user == ("65532" if os.geteuid() == 0 else str(os.geteuid()))
