"""An endpoint that answers what epp asks a vLLM server, and remembers every request's head."""

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass
from typing import Self

__all__ = ["ModelEndpoint", "Received"]

MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "root": "m", "parent": None}]}
METRICS = 'vllm:num_requests_running{model_name="m"} 0\nvllm:num_requests_waiting{model_name="m"} 0\n'
CHAT = {
    "id": "1",
    "object": "chat.completion",
    "choices": [],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
ANSWERS = {"/metrics": METRICS, "/v1/models": json.dumps(MODELS), "/tokenize": '{"count": 300}'}


@dataclass(frozen=True)
class Received:
    """One request; header names are lower-case."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class ModelEndpoint:
    """Listens on loopback, with `tls` over TLS."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.received: list[Received] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def to(self, path: str) -> list[Received]:
        """The requests to `path` so far."""
        return [request for request in self.received if request.path == path]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                while True:
                    await self._answer(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head[:-4].split("\r\n")
        headers = [(name.lower(), value) for name, value in (field.split(": ", 1) for field in fields)]
        body = await reader.readexactly(int(dict(headers).get("content-length", "0")))
        method, target, _ = line.split(" ")
        path = target.partition("?")[0]
        self.received.append(Received(method, path, headers, body))
        answer = ANSWERS.get(path, json.dumps(CHAT)).encode()
        kind = b"text/plain" if path == "/metrics" else b"application/json"
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (kind, len(answer), answer)
        )
        await writer.drain()
