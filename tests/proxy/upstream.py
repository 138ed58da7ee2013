"""An endpoint whose every byte is scripted by the test: it accepts, and the test reads and writes."""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Self

from epp.director import Target

PATIENCE_S = 10.0


@dataclass(frozen=True)
class RawRequest:
    """What the router sent; header names are lower-case."""

    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


class UpstreamConnection:
    """One connection that the router made."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> RawRequest:
        """The next request, whole."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            line, *fields = head[:-4].split(b"\r\n")
            pairs = [field.split(b": ", 1) for field in fields]
            headers = [(name.lower(), value) for name, value in pairs]
            length = int(dict(headers).get(b"content-length", b"0"))
            return RawRequest(line, headers, await self.reader.readexactly(length))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            await self.writer.drain()

    async def closed_by_router(self) -> None:
        """Returns when the router has closed this connection."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                rest = await self.reader.read()
            except ConnectionError:
                return
        assert rest == b""

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


class ScriptedUpstream:
    """Listens on loopback; `accept` hands out connections in the order in which they came."""

    def __init__(self) -> None:
        self._connections: asyncio.Queue[UpstreamConnection] = asyncio.Queue()
        self._all: list[UpstreamConnection] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._all:
            connection.writer.transport.abort()
        await asyncio.sleep(0)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = UpstreamConnection(reader, writer)
        self._all.append(connection)
        self._connections.put_nowait(connection)

    async def accept(self) -> UpstreamConnection:
        async with asyncio.timeout(PATIENCE_S):
            return await self._connections.get()

    @property
    def accepted(self) -> int:
        """Connections that came so far."""
        return len(self._all)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def target(self, *, fresh: bool = False) -> Target:
        return Target(self.address, "http", "127.0.0.1", self.port, 0, fresh_connection=fresh)


def json_answer(body: bytes, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    """A complete JSON response."""
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b" % (
        status,
        extra,
        len(body),
        body,
    )


SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
