"""Scripted endpoints on real sockets, and sinks that can be awaited."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from epp.http import Origin, ResponseHead, UpstreamFailure, UpstreamRequest

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One connection as the endpoint sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Head and body of the next request; the body's length is told by content-length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return head + await self.reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        self.writer.transport.abort()

    async def closed_by_client(self) -> bytes:
        """Wait for the client to close; what it still sent."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


@contextlib.asynccontextmanager
async def endpoint(script: Script, host="127.0.0.1", **options) -> AsyncIterator[Origin]:
    """A server that runs `script` for each connection, and its origin."""
    tasks = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        try:
            await script(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0, **options)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Origin("https" if "ssl" in options else "http", host, port)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(*responses: bytes) -> Script:
    """A script that answers each request with the next response, from the start again after the last."""

    async def script(peer: Peer) -> None:
        while True:
            for response in responses:
                await peer.request()
                await peer.send(response)

    return script


def get(target=b"/", **headers: bytes) -> UpstreamRequest:
    return UpstreamRequest(b"GET", target, [(k.encode(), v) for k, v in headers.items()], b"")


def post(body: bytes) -> UpstreamRequest:
    return UpstreamRequest(b"POST", b"/v1/completions", [], body)


class AwaitableSink:
    """Collects a response; `done` ends with it, `began` with its first bytes."""

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[UpstreamFailure | None] = loop.create_future()
        self.began: asyncio.Future[None] = loop.create_future()
        self.head: ResponseHead | None = None
        self.body = b""
        self.pieces = 0
        self.on_first_data = lambda: None

    def on_head(self, head):
        assert self.head is None
        self.head = head

    def on_data(self, data):
        assert self.head is not None
        assert data
        self.pieces += 1
        self.body += data
        if not self.began.done():
            self.began.set_result(None)
            self.on_first_data()

    def on_end(self):
        self.done.set_result(None)

    def on_failure(self, failure):
        self.done.set_result(failure)
