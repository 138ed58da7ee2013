"""A simulated vLLM server on a real socket: in this process, or for the command line."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from epp.simserver.app import SimApp
from epp.simserver.core import SimCore
from epp.simserver.errors import draining, engine_dead
from epp.simserver.settings import SimSettings

__all__ = ["SimServer"]

DRAIN_POLL_S = 0.02


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol; tells the application its transport, which faults need."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"sim": {"transport": self.transport}}


class _Server(uvicorn.Server):
    """uvicorn's server without signal handlers: its owner stops it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class SimServer:
    """An HTTP server that behaves like vLLM.

        async with SimServer(gpu_blocks=256) as server:
            ... server.url ...

    Keyword arguments replace fields of `settings`. `core` gives tests the engine, the faults and the requests
    seen. After `stop` or `kill` it can be started again on the same port, as a new process: empty, with a new
    start time.
    """

    core: SimCore

    def __init__(self, settings: SimSettings | None = None, **overrides: Any) -> None:
        self.settings = replace(settings or SimSettings(), **overrides)
        self.port = self.settings.port
        self._server: _Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """host:port"""
        return f"{self.settings.host}:{self.port}"

    @property
    def url(self) -> str:
        """Base URL, without a path."""
        return f"http://{self.address}"

    async def start(self) -> None:
        """Listen; returns when requests are accepted. Raises OSError when the port is taken."""
        listener = socket.create_server((self.settings.host, self.port), backlog=2048)
        self.port = listener.getsockname()[1]
        self.core = SimCore(self.settings)
        config = uvicorn.Config(
            SimApp(self.core),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=self.settings.keep_alive_s,  # type: ignore[arg-type]
        )
        self._server = _Server(config)
        self._tasks = [
            asyncio.create_task(self._server.serve(sockets=[listener])),
            asyncio.create_task(self.core.runner.run()),
        ]
        while not self._server.started:  # noqa: ASYNC110  uvicorn offers no event for it
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Stop at once, as SIGTERM with `--shutdown-timeout 0` does: what is in flight is cut."""
        await self._end(reset=False)

    async def kill(self) -> None:
        """Die: every connection is reset and the port is closed."""
        await self._end(reset=True)

    def begin_drain(self) -> None:
        """Refuse new requests with vLLM's 500; probes go on answering 200, streams go on."""
        self.core.refusal = draining

    def fail_engine(self) -> None:
        """Let the engine process die under the API process: streams end in an error event, requests get 500.

        vLLM's API process follows within 2 s; call `kill` for that.
        """
        self.core.refusal = engine_dead
        self.core.runner.fail_all(engine_dead())

    async def drain(self) -> None:
        """What SIGTERM does: drain for at most `shutdown_timeout_s`, then stop."""
        self.begin_drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_timeout_s):
                while self.core.inference_in_flight:  # noqa: ASYNC110  happens once in a process's life
                    await asyncio.sleep(DRAIN_POLL_S)
        await self.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _end(self, *, reset: bool) -> None:
        if self._server is None:
            return
        server, self._server = self._server, None
        serving, stepping = self._tasks
        stepping.cancel()
        server.should_exit = True
        for connection in list(server.server_state.connections):
            _cut(connection, reset=reset)
        await asyncio.gather(serving, stepping, return_exceptions=True)


def _cut(connection: Any, *, reset: bool) -> None:
    transport: asyncio.Transport = connection.transport
    if reset:
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    transport.abort()
