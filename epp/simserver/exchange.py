"""One HTTP request and its answer over ASGI, with the means to break the connection."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, NoReturn

from epp.simserver.compact import compact_json
from epp.simserver.errors import engine_dead
from epp.simserver.faults import NO_FAULT

__all__ = ["BrokenOffError", "Exchange"]

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BrokenOffError(Exception):
    """The body was ended by a fault; there is nothing more to write."""


class Exchange:
    """Reads the request and writes the answer with vLLM's headers, in vLLM's order.

    `fault` is what goes wrong with the body of the answer; `app` has dealt with the head before. A body that
    is broken off raises BrokenOffError in whoever writes it.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: tuple[tuple[bytes, bytes], ...] = tuple(scope["headers"])
        self.body = b""
        self.fault = NO_FAULT
        self.echo_headers: list[tuple[bytes, bytes]] = []
        self._chunks_sent = 0
        self._transport: asyncio.Transport = scope["extensions"]["sim"]["transport"]
        self._receive = receive
        self._send = send
        self._by_name = dict(self.headers)

    def header(self, name: bytes) -> str | None:
        """Value of a request header, by its lower-case name."""
        value = self._by_name.get(name)
        return None if value is None else value.decode("latin-1")

    async def read(self) -> None:
        """Take the whole request body in; raises ConnectionError when the client left before its end."""
        parts = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        self.body = b"".join(parts)

    async def gone(self) -> None:
        """Wait until the client has left; only after `read`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, but drop it as soon as the client has left; what it raises is raised here."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            working.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled():
            working.result()

    async def answer(self, status: int, body: bytes = b"", content_type: bytes | None = JSON) -> None:
        """A whole answer."""
        if self.fault.body == "error-event":
            self.fault = NO_FAULT
            status, body, content_type = 500, engine_dead().body, JSON
        headers = [(b"content-length", b"%d" % len(body))]
        if content_type is not None:
            headers.append((b"content-type", content_type))
        await self._start(status, headers)
        if self.fault.body:
            await self.chunk(body[: len(body) // 2])
            await self._break_off()
        await self._send({"type": "http.response.body", "body": body})

    async def answer_json(self, status: int, data: object) -> None:
        """A whole answer in JSON."""
        await self.answer(status, compact_json(data))

    async def start_stream(self) -> None:
        """The head of an event stream."""
        await self._start(200, [(b"content-type", EVENT_STREAM)])

    async def chunk(self, data: bytes) -> None:
        """One chunk of a stream."""
        if self.fault.body and self._chunks_sent >= self.fault.body_chunks:
            await self._break_off()
        self._chunks_sent += 1
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

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

    async def _break_off(self) -> NoReturn:
        """End the body in the way the fault says."""
        match self.fault.body:
            case "reset-after":
                await self.reset()
            case "truncate":
                await self.close()
            case "hang-after":
                await self.gone()
            case _:
                self.fault = NO_FAULT
                await self.chunk(b"data: " + engine_dead().body + b"\n\n")
                await self.chunk(b"data: [DONE]\n\n")
                await self.end_stream()
        raise BrokenOffError

    async def _until_closed(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.gone(), 1.0)
