"""A router between clients and endpoints that send raw bytes, and an endpoint that reads strictly."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Self

from epp.director import Target
from epp.http import UpstreamPool, UpstreamSettings
from epp.proxy import FastLane, ProxySettings, Relay
from tests.proxy.harness import PATIENCE_S, Door, RawClient, ScriptedDirector
from tests.proxy.upstream import ScriptedUpstream

# What a door needs to relay through each lane.
LANES = {
    "asgi": lambda _relay: {},
    "fast": lambda relay: {"lane": FastLane(relay, lambda _path: True)},
}


@dataclass(frozen=True)
class Asked:
    """One request as an endpoint understood it; header names are lower-case."""

    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


class StrictEndpoint:
    """Answers each request with its own line; remembers what it got, and whatever was no request."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.garbage: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def got(self) -> list[tuple[bytes, bytes]]:
        """Method and target, and body, of each request."""
        return [(asked.line.rpartition(b" ")[0], asked.body) for asked in self.asked]

    def target(self) -> Target:
        return Target(f"127.0.0.1:{self.port}", "http", "127.0.0.1", self.port, 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while True:
                asked = await _strict_request(reader)
                self.asked.append(asked)
                body = json.dumps({"line": asked.line.decode("latin-1")}).encode()
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                writer.write(head % len(body) + (b"" if asked.line.startswith(b"HEAD") else body))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                self.garbage.append(f"cut: {error.partial[:60]!r}")
        except ConnectionError:
            pass
        except AssertionError as error:
            self.garbage.append(str(error))
        finally:
            writer.transport.abort()


async def _strict_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    line, *fields = head.split(b"\r\n")
    assert line.count(b" ") == 2, f"line {line!r}"
    assert line.endswith(b" HTTP/1.1"), f"line {line!r}"
    pairs = []
    for field in fields:
        name, separator, value = field.partition(b": ")
        assert separator, f"field {field!r}"
        assert not set(name) & set(b" \t\r\n\x00"), f"field {field!r}"
        assert not set(value) & set(b"\r\n\x00"), f"field {field!r}"
        pairs.append((name.lower(), value))
    codings = [value for name, value in pairs if name == b"transfer-encoding"]
    lengths = [value for name, value in pairs if name == b"content-length"]
    assert len(codings) + len(lengths) <= 1, f"framed twice: {codings} {lengths}"
    assert sum(name == b"host" for name, _ in pairs) == 1, "not exactly one host"
    if codings:
        assert codings == [b"chunked"], f"coding {codings}"
        return Asked(line, pairs, await _chunks(reader))
    return Asked(line, pairs, await reader.readexactly(int(lengths[0]) if lengths else 0))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    assert await reader.readexactly(2) == b"\r\n", "trailers"
    return body


@dataclass
class Front:
    """A running router; `endpoint` is a `StrictEndpoint` or a `ScriptedUpstream`."""

    door: Door
    relay: Relay
    director: ScriptedDirector
    pool: UpstreamPool
    endpoint: StrictEndpoint | ScriptedUpstream

    async def client(self) -> RawClient:
        return await self.door.client()

    async def exchange(self, *pieces: bytes) -> bytes:
        """Send bytes on a connection of their own, then everything that comes until the router closes it or
        the client has seen the answer to a last request that asks for the end.
        """
        async with await self.client() as client:
            raw = client.writer.get_extra_info("socket")
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                client.writer.write(piece)
                await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE_S):
                try:
                    return await client.reader.read()
                except ConnectionResetError:
                    return b"<reset>"


@asynccontextmanager
async def front(
    lane: str,
    settings: ProxySettings | None = None,
    upstream_settings: UpstreamSettings | None = None,
    *,
    scripted: bool = False,
    targets: int = 50,
) -> AsyncIterator[Front]:
    """A router with one endpoint; with `scripted` the test writes the endpoint's bytes."""
    settings = settings or ProxySettings()
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(ScriptedUpstream() if scripted else StrictEndpoint())
        director = ScriptedDirector([endpoint.target() for _ in range(targets)])
        pool = UpstreamPool(upstream_settings or UpstreamSettings())
        stack.push_async_callback(pool.close)
        relay = Relay(director, pool, settings)  # type: ignore[arg-type]
        door = Door(relay, settings, on_drain_timeout=relay.shut_down, **LANES[lane](relay))
        await stack.enter_async_context(door)
        yield Front(door, relay, director, pool, endpoint)


def statuses(wire: bytes) -> list[int]:
    """The status of each answer on a connection, read by its own framing; fails when it is out of step."""
    found = []
    while wire:
        head, separator, rest = wire.partition(b"\r\n\r\n")
        assert separator, f"half a head: {wire[:80]!r}"
        line, *fields = head.split(b"\r\n")
        assert line.startswith(b"HTTP/1.1 "), f"out of step: {line[:80]!r}"
        status = int(line[9:12])
        found.append(status)
        headers = dict(field.lower().split(b": ", 1) for field in fields)
        if b"transfer-encoding" in headers:
            _, rest = rest.split(b"0\r\n\r\n", 1)
        elif status >= 200:
            rest = rest[int(headers[b"content-length"]) :]
        wire = rest
    return found
