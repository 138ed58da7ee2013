"""A simulated vLLM server on a real socket: in this process, or for the command line."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import replace
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from epp.simserver.app import SimApp
from epp.simserver.core import SimCore
from epp.simserver.errors import draining, engine_dead
from epp.simserver.realtime import RealtimeProtocol
from epp.simserver.settings import SimSettings

__all__ = ["SimServer"]

DRAIN_POLL_S = 0.02
DATE_INTERVAL_S = 1.0
LINGER_0 = struct.pack("ii", 1, 0)
"""With it closing a socket sends a reset."""


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol; tells the application its transport, which faults need."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"sim": {"transport": self.transport}}


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
        self._state = ServerState()
        self._listening: asyncio.Server | None = None
        self._background: list[asyncio.Task[None]] = []

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
        self.core = SimCore(self.settings)
        self._state = ServerState()
        config = uvicorn.Config(
            SimApp(self.core),
            ws=RealtimeProtocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=self.settings.keep_alive_s,  # type: ignore[arg-type]
        )
        config.load()
        listener = socket.create_server((self.settings.host, self.port), backlog=2048)
        self.port = listener.getsockname()[1]
        _date(self._state, config)
        self._background = [
            asyncio.create_task(self.core.runner.run()),
            asyncio.create_task(_keep_date(self._state, config)),
        ]
        state = self._state
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(config, state, {}), sock=listener
        )

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
                while self.core.inference_in_flight:  # noqa: ASYNC110  happens once in a server's life
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
        if self._listening is None:
            return
        listening, self._listening = self._listening, None
        listening.close()
        for connection in list(self._state.connections):
            _cut(connection.transport, reset=reset)
        await self.core.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, *self._state.tasks, return_exceptions=True)
        await listening.wait_closed()


def _cut(transport: asyncio.Transport, *, reset: bool) -> None:
    if reset:
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
    transport.abort()


def _date(state: ServerState, config: uvicorn.Config) -> None:
    """The headers that uvicorn puts before the application's."""
    state.default_headers = [(b"date", formatdate(usegmt=True).encode()), *config.encoded_headers]


async def _keep_date(state: ServerState, config: uvicorn.Config) -> None:
    while True:
        await asyncio.sleep(DATE_INTERVAL_S)
        _date(state, config)
