"""Endpoints that write down every request: one that answers as it is told, and one that the test answers for."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tests.proxy.harness import RawClient, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk, json_answer

__all__ = [
    "Asked",
    "Call",
    "Recorder",
    "Scripted",
    "first_call",
    "in_flight",
    "port_of",
    "post",
    "raw_client",
]

MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "root": "/models/m", "parent": None}]}
METRICS = b"vllm:num_requests_waiting 0\n"
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Asked:
    """One request; header names are lower-case, `raw_headers` are as they came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    raw_headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def values(self, name: bytes) -> list[bytes]:
        """Every value of a header."""
        return [value for key, value in self.raw_headers if key.lower() == name]


class _Endpoint:
    """Listens on a free port of loopback."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers = answers
        self.reads_bodies = True
        self.asked: list[Asked] = []
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def relayed(self) -> list[Asked]:
        """What clients asked, without scrapes and probes (they have no request id)."""
        return [asked for asked in self.asked if "x-request-id" in asked.headers]

    def probes(self) -> list[Asked]:
        """Scrapes and probes."""
        return [asked for asked in self.asked if "x-request-id" not in asked.headers]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        try:
            while True:
                asked = await _read(reader, body=self.reads_bodies)
                self.asked.append(asked)
                await self._answer(asked, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
            await asyncio.sleep(0)

    async def _answer(self, asked: Asked, _reader: object, writer: asyncio.StreamWriter) -> None:
        answer = self.answers.get(asked.path, {})
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        writer.write(json_answer(body) if asked.method != "HEAD" else json_answer(body)[: -len(body)])


class Recorder(_Endpoint):
    """`answers` are bodies by path, JSON or bytes; every other path gets `{}`, a metrics page is empty."""

    def __init__(self, models: object = MODELS, answers: dict[str, object] | None = None) -> None:
        super().__init__({"/v1/models": models, "/metrics": METRICS} | (answers or {}))


class Call:
    """A relayed request that waits for the test's answer."""

    def __init__(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self.over = asyncio.Event()
        self._reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Bytes of the answer, each piece by itself."""
        for piece in pieces:
            self.writer.write(piece)
            async with asyncio.timeout(PATIENCE_S):
                await self.writer.drain()

    async def answer(self, body: bytes = b"{}", status: bytes = b"200 OK", extra: bytes = b"") -> None:
        """A whole JSON answer."""
        await self.send(json_answer(body, status, extra))
        self.over.set()

    async def stream(self, *events: bytes) -> None:
        """The head of an event stream and these events, each in a chunk of its own."""
        await self.send(SSE_HEAD, *(chunk(event) for event in events))

    async def events(self, *events: bytes) -> None:
        """More events."""
        await self.send(*(chunk(event) for event in events))

    async def end(self) -> None:
        """The end of a chunked answer."""
        await self.send(LAST_CHUNK)
        self.over.set()

    def close(self) -> None:
        """Close the connection with what was sent."""
        self.writer.close()

    def reset(self) -> None:
        """Reset the connection."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def closed_by_router(self) -> None:
        """Returns when the router has closed this connection; what is left of an upload may come before."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                rest = await self._reader.read()
                assert rest == b"" or "transfer-encoding" in self.asked.headers


class Scripted(_Endpoint):
    """Answers scrapes and probes by itself; every relayed request is a `Call` for the test.

    Without `reads_bodies` it is one as soon as its head is here.
    """

    def __init__(self, *, reads_bodies: bool = True) -> None:
        super().__init__({"/v1/models": MODELS, "/metrics": METRICS})
        self.reads_bodies = reads_bodies
        self._calls: asyncio.Queue[Call] = asyncio.Queue()

    async def call(self) -> Call:
        """The next relayed request."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._calls.get()

    def put_back(self, call: Call) -> None:
        """Hand out `call` again."""
        self._calls.put_nowait(call)

    @property
    def waiting(self) -> int:
        """Requests that nobody has taken yet."""
        return self._calls.qsize()

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "x-request-id" not in asked.headers:
            await super()._answer(asked, reader, writer)
            return
        call = Call(asked, reader, writer)
        self._calls.put_nowait(call)
        await call.over.wait()


async def _read(reader: asyncio.StreamReader, *, body: bool) -> Asked:
    line, *fields = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    pairs = tuple((name, value) for name, value in (field.split(b": ", 1) for field in fields))
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in pairs}
    method, target, _ = line.decode("latin-1").split(" ")
    content = b""
    if body and headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            content += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    elif body:
        content = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, content, pairs)


async def first_call(endpoints: Sequence[Scripted]) -> tuple[Call, list[Scripted]]:
    """The first relayed request that any of the endpoints gets, and the others."""
    waiting = {asyncio.create_task(endpoint.call()): endpoint for endpoint in endpoints}
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    task, *also = done
    for other in also:  # it waits for its turn
        waiting[other].put_back(other.result())
    return task.result(), [endpoint for found, endpoint in waiting.items() if found is not task]


def port_of(router: object) -> int:
    """The port on which a router listens."""
    return int(router.url.rpartition(":")[2])


async def raw_client(router: object, **options: int) -> RawClient:
    """A client of `router` on a socket; to be left with `async with` or `leave`."""
    return await RawClient.connect(port_of(router), **options)


async def in_flight(router: object) -> int:
    """Requests that the router has in flight."""
    return (await router.client.get("/load")).json()["server_load"]
