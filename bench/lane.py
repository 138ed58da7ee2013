"""What a request, and a chunk of a stream, costs in the fast lane without sockets and kernel.

    python bench/lane.py [--bytes 1000] [--clients 32] [--requests 640] [--batches 40] [--profile] [--record]

The real protocol, relay, director, observers and upstream client of one process; clients and endpoints are
transports in memory. CPU time of the process in the best batch: neighbours make others slower. --profile
prints the functions that cost most instead; --record puts the run on record, as `epp serve --record`.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from epp.app.collector import calm_collector
from epp.app.runtime import Runtime
from epp.config import Settings, load_config
from epp.endpoints.types import EndpointMetrics, EndpointSpec, ModelInfo
from epp.http.connection import Connection
from epp.proxy.fast_protocol import FastLane, FastProtocol
from epp.proxy.front_state import FrontState
from epp.proxy.server import _Listener

CONFIG = Path(__file__).parents[1] / "config" / "tiered-prefix-cpu.yaml"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
USAGE = {"prompt_tokens": 250, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 128}}
ANSWER = json.dumps({"choices": [{"message": {"content": "x" * 250}}], "usage": USAGE}).encode()
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(ANSWER),
    ANSWER,
)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" tok"}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)


class Wire(asyncio.Transport):
    """Takes what is written and tells `on_write`."""

    def __init__(self, on_write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._on_write = on_write

    def write(self, data: Any) -> None:
        self._on_write(data)

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8080)}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    resume_reading = close = abort = pause_reading


class Lane:
    """A router with four endpoints in memory."""

    def __init__(self, log: str, record: str | None = None) -> None:
        settings = Settings(record=record)
        settings = replace(settings, access_log=replace(settings.access_log, file=log))
        self.runtime = runtime = Runtime(settings, load_config(CONFIG.read_text()))
        runtime.observers.start()
        self._know(runtime)
        runtime.pool._dial = self._dial  # type: ignore[assignment]  # noqa: SLF001  endpoints in memory
        self.asked: list[Connection] = []
        front = FrontState(runtime.proxy_settings, runtime.relay.around.new_request_id, asyncio.Event())
        self.listener = _Listener(runtime.app, front, None, FastLane(runtime.relay, runtime.app.relays))  # type: ignore[arg-type]

    def _know(self, runtime: Runtime) -> None:
        now, upkeep = runtime.clock.monotonic(), runtime.core.upkeep
        upkeep.sync_endpoints([EndpointSpec("http", f"10.0.0.{n}", 8000) for n in range(4)], now)
        for endpoint in runtime.core.state.table.pool.endpoints:
            metrics = EndpointMetrics(waiting=0, running=1, kv_usage=0.2)
            upkeep.on_models(endpoint.address, endpoint.incarnation, (ModelInfo("m"),), now)
            upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, now)

    async def _dial(self, new_connection: Callable[[], Connection], _origin: object, _tls: object) -> None:
        connection = new_connection()

        def written(data: bytes) -> None:
            if data[-2:] == b"]}":  # the end of a request
                self.asked.append(connection)

        connection.connection_made(Wire(written))

    def client(self) -> FastProtocol:
        protocol = self.listener._connection()  # noqa: SLF001  what a socket would make
        protocol.connection_made(Wire(lambda _data: None))
        assert isinstance(protocol, FastProtocol)
        return protocol

    async def serve(
        self, clients: list[FastProtocol], bodies: list[bytes], count: int, turns_after: int = 1
    ) -> None:
        """So many requests, one a client at a time; each round ends with turns of the loop."""
        for first in range(0, count, len(clients)):
            for number, client in enumerate(clients, first):
                client.data_received(bodies[number % len(bodies)])
            while len(self.asked) < len(clients):  # noqa: ASYNC110  sent in later turns
                await asyncio.sleep(0)
            asked, self.asked = self.asked, []
            for endpoint in asked:
                endpoint.data_received(RESPONSE)
            for _ in range(turns_after):
                await asyncio.sleep(0)


def requests(size: int) -> list[bytes]:
    """Chats of about `size` bytes: 32 texts, each the beginning of several prompts."""
    generator = random.Random(1)

    def text(share: float) -> str:
        return " ".join(generator.choice(WORDS) for _ in range(int(size * share / 6)))

    beginnings = [text(0.8) for _ in range(32)]
    bodies = []
    for number in range(256):
        messages = [{"role": "user", "content": beginnings[number % 32] + text(0.2)}]
        bodies.append(json.dumps({"model": "m", "max_tokens": 16, "messages": messages}).encode())
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: router:8080\r\nUser-Agent: bench/1\r\nAccept: */*\r\n"
    )
    head += b"Content-Type: application/json\r\nAuthorization: Bearer abcdefgh\r\n"
    return [b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body) for body in bodies]


async def best_us(run: Callable[[int], Awaitable[None]], count: int, batches: int) -> float:
    """CPU µs of one of `count` in the best of `batches`."""
    best = float("inf")
    for _ in range(batches):
        began = time.process_time()
        await run(count)
        best = min(best, (time.process_time() - began) / count)
    return best * 1e6


async def measure(options: argparse.Namespace, log: str) -> None:
    record = f"{log}.rec" if options.record else None
    lane = Lane(log, record)
    await lane.listener.refresh_date()
    clients = [lane.client() for _ in range(options.clients)]
    bodies = requests(options.bytes)

    async def serve(count: int) -> None:
        await lane.serve(clients, bodies, count)

    await serve(1000)
    calm_collector()
    if options.profile:
        with cProfile.Profile() as profile:
            await serve(options.requests * options.batches // 4)
        pstats.Stats(profile).sort_stats("tottime").print_stats(50)
    else:
        cost = await best_us(serve, options.requests, options.batches)
        print(f"request of {options.bytes} bytes, {len(clients)} at a time: {cost:.1f} µs")
        await measure_chunks(options, lane, clients[0], bodies[0])
    lane.runtime.observers.stop()
    if record is not None:
        lane.runtime.recording.stop()
        await asyncio.to_thread(tell_size, Path(record))


def tell_size(record: Path) -> None:
    """Of a recording, which goes then."""
    print(f"on record: {record.stat().st_size / 1e6:.1f} MB")
    record.unlink()


async def measure_chunks(
    options: argparse.Namespace, lane: Lane, client: FastProtocol, request: bytes
) -> None:
    """One stream, chunk after chunk."""
    client.data_received(request)
    while not lane.asked:  # noqa: ASYNC110  the request is sent in a later turn
        await asyncio.sleep(0)
    endpoint = lane.asked.pop()
    endpoint.data_received(STREAM)

    async def stream(count: int) -> None:
        for _ in range(count):
            endpoint.data_received(CHUNK)

    print(f"chunk of a stream: {await best_us(stream, 5 * options.requests, options.batches):.2f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=1000, help="size of a request's body (%(default)s)")
    parser.add_argument("--clients", type=int, default=32, help="requests under way together (%(default)s)")
    parser.add_argument("--requests", type=int, default=640, help="in a batch (%(default)s)")
    parser.add_argument("--batches", type=int, default=40, help="of which the best counts (%(default)s)")
    parser.add_argument("--profile", action="store_true", help="print the functions that cost most")
    parser.add_argument("--record", action="store_true", help="put the run on record")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile() as log:
        uvloop.run(measure(options, log.name))


if __name__ == "__main__":
    main()
