"""Clients on kept connections: unique and shared prompts, streamed and not, and every tenth leaves."""

import asyncio
import random

__all__ = ["Clients"]

ABORTED = 0.1
SHARED = 0.5
_PREFIXES = 200
_LEAVE_WITHIN_S = 0.05


class Clients:
    """`count` clients that share out the requests among them. `bad` tells the answers that were not 200."""

    def __init__(self, port: int, seed: int, count: int) -> None:
        self._port = port
        self._random = random.Random(seed)
        self._count = count
        self._prefixes = [self._random.randbytes(1500).hex() for _ in range(_PREFIXES)]
        self._left = 0
        self.done = 0
        self.aborted = 0
        self.bad: list[bytes] = []

    async def send(self, requests: int) -> None:
        """Send so many; returns when the last has ended."""
        self._left = requests
        await asyncio.gather(*(self._client() for _ in range(self._count)))

    async def _client(self) -> None:
        connection = None
        try:
            while self._left > 0:
                self._left -= 1
                connection = connection or await asyncio.open_connection(
                    "127.0.0.1", self._port, limit=1 << 20
                )
                if self._random.random() < ABORTED:
                    await self._abort(*connection)
                    connection = None
                elif not await self._ask(*connection):
                    connection = None
                self.done += 1
        finally:
            if connection is not None:
                connection[1].transport.abort()

    async def _abort(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._request(slow=True))
        await asyncio.sleep(self._random.uniform(0, _LEAVE_WITHIN_S))
        writer.transport.abort()
        self.aborted += 1

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection can carry another one."""
        writer.write(self._request(slow=False))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 200"):
            if b"\r\ntransfer-encoding: chunked" in head.lower():
                await reader.readuntil(b"\r\n0\r\n\r\n")
            else:
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
            return True
        self.bad.append(head[:200])
        writer.transport.abort()
        return False

    def _request(self, *, slow: bool) -> bytes:
        chosen = self._random
        shared = chosen.random() < SHARED
        text = chosen.choice(self._prefixes) if shared else ""
        text += chosen.randbytes(chosen.randint(100, 500) if shared else chosen.randint(500, 3000)).hex()
        stream = b"true" if slow or chosen.random() < 0.5 else b"false"
        body = b'{"model":"soak","stream":%b,%b"messages":[{"role":"user","content":"%b"}]}' % (
            stream,
            b'"user":"slow",' if slow else b"",
            text.encode(),
        )
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: router\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n"
        )
        return head % len(body) + body
