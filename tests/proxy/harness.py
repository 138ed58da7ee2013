"""A running front door, a director that is told what to decide, and a client that sends raw bytes."""

import asyncio
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Self

from epp.compose import compose
from epp.config import builtin_config, load_config
from epp.director import EndReason, Exchange, Failure, RequestHead, Target
from epp.director.exchange import RewrittenBody
from epp.errors import EppError
from epp.proxy import EppServer, ProxySettings, bind_socket
from epp.proxy.protocol import HttpProtocol
from epp.request import InferenceRequest, Rewrite
from epp.response import Usage

PATIENCE_S = 10.0


async def eventually(condition: Callable[[], object]) -> None:
    """Let the loop turn until `condition` holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - states without an event of their own
            await asyncio.sleep(0)


STATE = compose(load_config(builtin_config())).state


@dataclass
class Ended:
    """One call of `on_end`."""

    reason: EndReason
    usage: Usage | None
    response_bytes: int
    error: EppError | None
    request_bytes: int = 0


@dataclass
class ScriptedDirector:
    """Hands out `targets` in their order, and writes down every call in `calls`."""

    targets: list[Target] = field(default_factory=list)
    prepare_error: EppError | None = None
    pick_error: EppError | None = None
    yields: int = 0
    request: InferenceRequest | None = None
    rewrite: Rewrite | None = None
    rewritten: RewrittenBody | None = None
    added_headers: tuple[tuple[str, str], ...] = ()
    calls: list[tuple[str, object]] = field(default_factory=list)
    heads: list[RequestHead] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    ends: asyncio.Queue[Ended] = field(default_factory=asyncio.Queue)

    def open(self, head: RequestHead, now: float) -> Exchange:
        self.calls.append(("open", head.path))
        self.heads.append(head)
        return Exchange(head, now, STATE)

    def prepare(
        self, exchange: Exchange, body: bytes | None, now: float, *, model: str | None = None
    ) -> Generator[None, None, None]:
        self.calls.append(("prepare", len(body) if body is not None else model))
        if body is not None:
            self.bodies.append(body)
        exchange.request = self.request
        exchange.rewrite, exchange.rewritten = self.rewrite, self.rewritten
        exchange.body_bytes = len(body or b"")
        if self.prepare_error is not None:
            raise self.prepare_error
        for _ in range(self.yields):
            yield

    def pick(self, exchange: Exchange, now: float) -> Target:
        self.calls.append(("pick", None))
        if self.pick_error is not None:
            raise self.pick_error
        return self.targets.pop(0)

    def next_after_failure(self, exchange: Exchange, failure: Failure, now: float) -> Target | None:
        self.calls.append(("next", str(failure.kind)))
        self.failures.append(failure)
        return self.targets.pop(0) if self.targets else None

    def on_response_head(self, exchange: Exchange, status: int, now: float) -> None:
        self.calls.append(("head", status))

    def response_headers(self, exchange: Exchange) -> tuple[tuple[str, str], ...]:
        return self.added_headers

    def on_stored_response(self, exchange: Exchange, response_id: str, now: float) -> None:
        self.calls.append(("stored", response_id))

    def on_first_byte(self, exchange: Exchange, now: float) -> None:
        self.calls.append(("first_byte", None))

    def on_end(
        self,
        exchange: Exchange,
        reason: EndReason,
        now: float,
        *,
        usage: Usage | None = None,
        response_bytes: int = 0,
        error: EppError | None = None,
    ) -> None:
        self.calls.append(("end", str(reason)))
        self.ends.put_nowait(Ended(reason, usage, response_bytes, error, exchange.body_bytes))

    async def ended(self) -> Ended:
        """The next request that ended."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.ends.get()


@dataclass(frozen=True)
class RawResponse:
    """What the client got; header names are lower-case, `body` is without its transfer coding."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    def value(self, name: bytes) -> bytes | None:
        values = self.values(name)
        assert len(values) <= 1
        return values[0] if values else None


class RawClient:
    """A client on a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int | None = None) -> "RawClient":
        raw = socket.socket()
        raw.setblocking(False)
        if receive_buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
        except OSError:
            raw.close()
            raise
        reader, writer = await asyncio.open_connection(sock=raw)
        return cls(reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.leave()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            await self.writer.drain()

    async def read_exactly(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readexactly(size)

    async def read_until(self, mark: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(mark)

    async def read_to_end(self) -> bytes:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    async def read_head(self) -> RawResponse:
        """Status and headers, with the body still to be read."""
        head = await self.read_until(b"\r\n\r\n")
        line, *fields = head[:-4].split(b"\r\n")
        pairs = [item.split(b": ", 1) for item in fields]
        return RawResponse(int(line.split(b" ")[1]), [(name.lower(), value) for name, value in pairs], b"")

    async def read_chunk(self) -> bytes:
        """One chunk of a chunked body; b"" is the last."""
        size = int(await self.read_until(b"\r\n"), 16)
        data = await self.read_exactly(size + 2)
        return data[:-2]

    async def read_response(self, *, bodiless: bool = False) -> RawResponse:
        """One whole response."""
        head = await self.read_head()
        if bodiless:
            return head
        if head.values(b"transfer-encoding"):
            pieces = []
            while piece := await self.read_chunk():
                pieces.append(piece)
            body = b"".join(pieces)
        elif head.values(b"content-length"):
            body = await self.read_exactly(int(head.value(b"content-length") or 0))
        else:
            body = await self.read_to_end()
        return RawResponse(head.status, head.headers, body)

    def leave(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()


class Door:
    """A front door that listens on a free port of loopback."""

    def __init__(self, app: object, settings: ProxySettings | None = None, **hooks: object) -> None:
        self._app = app
        self._settings = settings or ProxySettings()
        self._hooks = hooks
        self._sockets = [bind_socket("127.0.0.1", 0)]
        self.admin_sockets: list[socket.socket] = []
        self.port: int = self._sockets[0].getsockname()[1]
        self.server: EppServer
        self.serving: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self.server = EppServer(self._app, self._settings, **self._hooks)  # type: ignore[arg-type]
        self.serving = asyncio.create_task(self.server.serve(self._sockets, self.admin_sockets))
        await self.server.started.wait()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.server.stop()
        async with asyncio.timeout(PATIENCE_S):
            await self.serving

    @property
    def connections(self) -> list[HttpProtocol]:
        """The connections of clients, as the server holds them."""
        [listener] = self.server._listeners
        return listener.connections

    async def client(self, **options: int) -> RawClient:
        return await RawClient.connect(self.port, **options)


def post(body: bytes = b'{"model":"m"}', path: bytes = b"/v1/chat/completions", extra: bytes = b"") -> bytes:
    """A whole POST."""
    return (
        b"POST %b HTTP/1.1\r\nHost: router\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
        % (
            path,
            extra,
            len(body),
            body,
        )
    )
