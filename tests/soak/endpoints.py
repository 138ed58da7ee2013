"""Endpoints that cost next to nothing: they answer at once, with usage, so that a soak strains the router alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["GPU_TOKENS", "MODEL", "endpoints"]

MODEL = "soak"
GPU_BLOCKS = 4000
GPU_TOKENS = GPU_BLOCKS * 16
BYTES_PER_TOKEN = 4
SLOW_S = 0.02
"""Between the pieces of a stream: a client that leaves does so in the middle."""

_PAGE = f"""\
vllm:num_requests_running{{model_name="{MODEL}"}} 1
vllm:num_requests_waiting{{model_name="{MODEL}"}} 0
vllm:kv_cache_usage_perc{{model_name="{MODEL}"}} 0.1
vllm:cache_config_info{{block_size="16",num_gpu_blocks="{GPU_BLOCKS}"}} 1
process_start_time_seconds 1700000000
""".encode()
_MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "root": MODEL}]}).encode()
_FIXED = {b"/metrics": _PAGE, b"/v1/models": _MODELS, b"/tokenize": b'{"count": 300}'}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class _Endpoint(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end])
        mark = head.find(b"content-length: ")
        size = int(head[mark + 16 :].partition(b"\r\n")[0]) if mark >= 0 else 0
        if len(self._buffer) < end + 4 + size:
            return
        body = bytes(self._buffer[end + 4 :])
        self._buffer.clear()
        self._answer(head.split(b" ", 2)[1], body)

    def _answer(self, path: bytes, body: bytes) -> None:
        if path in _FIXED:
            self._whole(_FIXED[path])
            return
        usage = b'{"prompt_tokens":%d,"completion_tokens":8,"total_tokens":%d}' % (
            len(body) // BYTES_PER_TOKEN,
            len(body) // BYTES_PER_TOKEN + 8,
        )
        if b'"stream":true' not in body:
            self._whole(b'{"object":"chat.completion","choices":[],"usage":%b}' % usage)
            return
        pieces = [b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'] * 4
        pieces += [b'data: {"choices":[],"usage":%b}\n\n' % usage, b"data: [DONE]\n\n"]
        chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        if b'"slow"' not in body:
            self._transport.write(_STREAM_HEAD + b"".join(chunks) + b"0\r\n\r\n")
            return
        self._transport.write(_STREAM_HEAD + chunks[0])
        self._go_on(chunks[1:])

    def _go_on(self, chunks: list[bytes]) -> None:
        if chunks:
            self._transport.write(chunks[0])
            self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._go_on, chunks[1:])
        else:
            self._transport.write(b"0\r\n\r\n")

    def _whole(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


@asynccontextmanager
async def endpoints(count: int) -> AsyncIterator[list[str]]:
    """URLs of `count` endpoints."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(_Endpoint, "127.0.0.1", 0) for _ in range(count)]
    try:
        yield [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers]
    finally:
        for server in servers:
            server.close()
