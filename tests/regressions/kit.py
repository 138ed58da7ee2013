"""An endpoint that writes down every request and answers as it is told."""

import asyncio
import json
from dataclasses import dataclass
from typing import Self

MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "root": "/models/m", "parent": None}]}


@dataclass(frozen=True)
class Asked:
    """One request; header names are lower-case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Recorder:
    """`answers` are bodies by path, JSON or bytes; every other path gets `{}`, a metrics page is empty."""

    def __init__(self, models: object = MODELS, answers: dict[str, object] | None = None) -> None:
        self.answers = {"/v1/models": models, "/metrics": b"vllm:num_requests_waiting 0\n"} | (answers or {})
        self.asked: list[Asked] = []
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
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
                asked = await _read(reader)
                self.asked.append(asked)
                answer = self.answers.get(asked.path, {})
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                writer.write(head % len(body) + (b"" if asked.method == "HEAD" else body))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
            await asyncio.sleep(0)


async def _read(reader: asyncio.StreamReader) -> Asked:
    line, *fields = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    method, target, _ = line.split(" ")
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body)
