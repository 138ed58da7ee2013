"""How long `/healthz` takes while large bodies are routed (behaviour T11 of docs/corpus.md).

    python bench/health_latency.py [--repeats N] [--json]

The router is a process of its own in front of an endpoint that reads and answers at once. For each size a
client sends chat requests of one message, one after the other, half of them with `Expect: 100-continue`;
meanwhile another asks for `/healthz` every 10 ms. Times are those of the second client, in milliseconds. The
targets are a p99 of 50 ms for bodies up to 16 MB and of 200 ms at 64 MB.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.hot_prefix import process

MB = 1_000_000
SIZES_MB = (1, 4, 16, 32, 64)
TARGETS_MS = {1: 50.0, 4: 50.0, 16: 50.0, 32: 200.0, 64: 200.0}
PROBE_EVERY_S = 0.01
REQUESTS = 10  # of each size


@dataclass
class Run:
    """What the probes saw while bodies of one size were sent."""

    megabytes: int
    seconds_a_request: float
    probes: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    target_ms: float


def body_of(size: int) -> bytes:
    """A chat request of `size` bytes."""
    frame = b'{"messages":[{"role":"user","content":"%b"}]}'
    text = b"The committee decided in its meeting to go on with the plan of last year. " * (size // 74 + 1)
    return frame % text[: size - len(frame % b"")]


async def serve_endpoint() -> None:
    """An endpoint that answers everything at once; writes its port to standard output."""
    pages = {
        b"/v1/models": b'{"object":"list","data":[{"id":"m","object":"model","root":"m","parent":null}]}',
        b"/metrics": b"vllm:num_requests_waiting 0\n",
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, length = head.partition(b"content-length: ")
                left = int(length.partition(b"\r\n")[0] or 0)
                while left:
                    left -= len(await reader.read(min(left, 1 << 20)))
                answer = pages.get(head.split(b" ", 2)[1], b"{}")
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                    % (len(answer), answer)
                )

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """The endpoint in a process of its own; yields its URL."""
    command = [sys.executable, __file__, "--serve-endpoint"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield f"http://127.0.0.1:{running.stdout.readline().strip()}"
        finally:
            running.terminate()


def send(port: int, body: bytes, *, expect: bool) -> None:
    """One request, answered to its end."""
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n"
    head += "Expect: 100-continue\r\n\r\n" if expect else "\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(head.encode())
        if expect and not client.recv(65_536).startswith(b"HTTP/1.1 100"):
            raise SystemExit("no 100 Continue came")
        client.sendall(body)
        answer = b""
        while piece := client.recv(65_536):
            answer += piece
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"not served: {answer[:200]!r}")


def probe(port: int, stop: threading.Event, found: list[float]) -> None:
    """Ask for `/healthz` until told to stop; milliseconds of each."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        started = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        found.append((time.perf_counter() - started) * 1000)
        time.sleep(PROBE_EVERY_S)
    connection.close()


def measure(port: int, megabytes: int) -> Run:
    """Send bodies of one size while another thread probes."""
    body, found, stop = body_of(megabytes * MB), [], threading.Event()
    prober = threading.Thread(target=probe, args=(port, stop, found))
    prober.start()
    started = time.perf_counter()
    for number in range(REQUESTS):
        send(port, body, expect=number % 2 == 1)
    seconds = (time.perf_counter() - started) / REQUESTS
    stop.set()
    prober.join()
    found.sort()

    def percentile(share: float) -> float:
        return round(found[math.ceil(share * len(found)) - 1], 1)

    return Run(
        megabytes, round(seconds, 3), len(found), percentile(0.5), percentile(0.99), round(found[-1], 1),
        TARGETS_MS[megabytes],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=1, help="runs of all sizes (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object a size instead of a table")
    parser.add_argument("--serve-endpoint", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_endpoint:
        asyncio.run(serve_endpoint())
        return
    if not arguments.json:
        print(f"{'MB':>4}{'s/request':>11}{'probes':>8}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'target':>8}")
    router = ("serve", "--access-log-enabled", "false", "--max-request-bytes", str(65 * MB))
    for _ in range(arguments.repeats):
        with endpoint() as url, process(*router, "--endpoint", url) as listening:
            port = int(listening.rpartition(":")[2])
            for megabytes in SIZES_MB:
                run = measure(port, megabytes)
                row = (
                    f"{run.megabytes:>4}{run.seconds_a_request:>11.3f}{run.probes:>8}{run.p50_ms:>8}{run.p99_ms:>8}"
                    f"{run.max_ms:>8}{run.target_ms:>8}"
                )
                print(json.dumps(asdict(run)) if arguments.json else row, flush=True)


if __name__ == "__main__":
    main()
