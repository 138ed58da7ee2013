"""Constant load: requests, streamed and not, one after another on each of many tasks, and how each ended."""

import asyncio
import json
import random
from dataclasses import dataclass

__all__ = ["Load", "Outcome"]

PATIENCE_S = 30.0
_TOPICS = [f"Topic {number}: " + "what the committee decided. " * 20 for number in range(40)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request as its client saw it; times are the loop's.

    Attributes:
        status: 0 when no head came.
        endpoint: whose answer it was; "" when the router answered itself.
        whole: the answer came to its proper end.
        detail: what came instead, for the report.
    """

    began: float
    ended: float
    stream: bool
    status: int
    endpoint: str
    whole: bool
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.status == 200 and self.whole


class Load:
    """`clients` tasks that ask for ever."""

    def __init__(self, port: int, seed: int, clients: int) -> None:
        self._port = port
        self._random = random.Random(seed)
        self._clients = clients
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.outcomes: list[Outcome] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._client()) for _ in range(self._clients)]

    async def stop(self) -> None:
        """Let every request that has begun come to its end."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _client(self) -> None:
        while not self._stopping:
            self.outcomes.append(await self._request())

    async def _request(self) -> Outcome:
        stream = self._random.random() < 0.6
        shared = self._random.choice(_TOPICS) if self._random.random() < 0.3 else ""
        text = f"{shared}And number {self._random.random()}?"
        body = {"messages": [{"role": "user", "content": text}], "stream": stream}
        clock = asyncio.get_running_loop().time
        began = clock()
        head, rest, detail = await self._exchange(json.dumps(body).encode())
        status = int(head[9:12]) if head else 0
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        whole = bool(head) and _is_whole(fields, rest, stream=stream and status == 200)
        endpoint = fields.get(b"x-epp-endpoint", b"").decode()
        return Outcome(
            began, clock(), stream, status, endpoint, whole, detail or rest[-120:].decode("latin-1")
        )

    async def _exchange(self, body: bytes) -> tuple[bytes, bytes, str]:
        """Head and rest of the answer, and what went wrong."""
        wire = b""
        writer = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                head = (
                    b"POST /v1/chat/completions HTTP/1.1\r\nhost: router\r\nconnection: close\r\n"
                    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
                )
                writer.write(head % len(body) + body)
                while data := await reader.read(65_536):
                    wire += data
        except (OSError, TimeoutError) as error:
            return *_split(wire), repr(error)
        finally:
            if writer is not None:
                writer.transport.abort()
        return *_split(wire), ""


def _split(wire: bytes) -> tuple[bytes, bytes]:
    head, separator, rest = wire.partition(b"\r\n\r\n")
    return (head, rest) if separator else (b"", wire)


def _is_whole(fields: dict[bytes, bytes], rest: bytes, *, stream: bool) -> bool:
    if b"content-length" in fields:
        return len(rest) == int(fields[b"content-length"])
    if not rest.endswith(b"0\r\n\r\n"):
        return False
    return not stream or b"data: [DONE]\n\n" in rest
