"""One HTTP request and its answer over ASGI, with the means to break the connection."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Exchange"]

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Exchange:
    """Reads the request and writes the answer with vLLM's headers, in vLLM's order."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: tuple[tuple[bytes, bytes], ...] = tuple(scope["headers"])
        self.echo_headers: list[tuple[bytes, bytes]] = []
        self.chunks_sent = 0
        self._transport: asyncio.Transport = scope["extensions"]["sim"]["transport"]
        self._receive = receive
        self._send = send
        self._by_name = dict(self.headers)

    def header(self, name: bytes) -> str | None:
        """Value of a request header, by its lower-case name."""
        value = self._by_name.get(name)
        return None if value is None else value.decode("latin-1")

    async def body(self) -> bytes:
        """The whole request body; raises ConnectionError when the client left before its end."""
        parts = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                return b"".join(parts)

    async def gone(self) -> None:
        """Wait until the client has left; only after `body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, status: int, body: bytes = b"", content_type: bytes | None = JSON) -> None:
        """A whole answer."""
        headers = [(b"content-length", b"%d" % len(body))]
        if content_type is not None:
            headers.append((b"content-type", content_type))
        await self._start(status, headers)
        await self._send({"type": "http.response.body", "body": body})
        self.chunks_sent += 1

    async def answer_json(self, status: int, data: object) -> None:
        """A whole answer in JSON."""
        await self.answer(status, _encode(data))

    async def answer_half(self, status: int, data: object) -> None:
        """The head of an answer in JSON and half of its body."""
        body = _encode(data)
        await self._start(status, [(b"content-length", b"%d" % len(body)), (b"content-type", JSON)])
        await self.chunk(body[: len(body) // 2])

    async def start_stream(self) -> None:
        """The head of an event stream."""
        await self._start(200, [(b"content-type", EVENT_STREAM)])

    async def chunk(self, data: bytes) -> None:
        """One chunk of a stream."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self.chunks_sent += 1

    async def end_stream(self) -> None:
        """The end of a stream."""
        await self._send({"type": "http.response.body", "body": b""})

    async def reset(self) -> None:
        """Break the connection so that the client sees a reset."""
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
        await self._until_closed()

    async def close(self) -> None:
        """Close the connection after what was written, whether the answer is complete or not."""
        self._transport.close()
        await self._until_closed()

    def write_raw(self, data: bytes) -> None:
        """Write bytes past HTTP."""
        self._transport.write(data)

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        headers = [*headers, (b"vary", b"Origin"), *self.echo_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _until_closed(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.gone(), 1.0)


def _encode(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
