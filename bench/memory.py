"""What the router holds in memory: an entry of the index, an idle connection, a waiting request.

Each figure is what the resident set of a process of its own grew by, divided by how many there are.

    .venv/bin/python bench/memory.py
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from epp.app.runtime import Runtime
from epp.config import Settings, load_config
from epp.config.builtin import builtin_config
from epp.config.settings import AccessLogSettings, LogSettings
from epp.endpoints.spec import parse_endpoints
from epp.prefix import PrefixIndex
from epp.proxy import EppServer, FastLane, bind_socket

ENDPOINTS = 64
CAPACITY_TOKENS = 31_250 * 16
BLOCK_TOKENS = 64
CLIENTS = 500
BODY = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"word " * 800)


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def index_entry(blocks: int) -> float:
    """Two views of each endpoint, full of prompts of so many blocks that share nothing."""
    generator = random.Random(1)
    index = PrefixIndex()
    views = [index.add_view(CAPACITY_TOKENS) for _ in range(2)]
    before = resident()
    for slot in range(ENDPOINTS):
        for _ in range(2 * CAPACITY_TOKENS // BLOCK_TOKENS // blocks):
            chain = [generator.getrandbits(64) for _ in range(blocks)]
            for view in views:
                index.touch(view, slot, chain, BLOCK_TOKENS)
    entries = sum(index.blocks(view, slot) for view in views for slot in range(ENDPOINTS))
    return (resident() - before) / entries


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


async def _connections(sent: str) -> float:
    """Connections of clients that have sent nothing, a probe, or a request of 4 KB.

    The endpoint answers a request that is "answered", and lets one wait that "waits".
    """
    serve = _answer_all if sent == "answered" else lambda _reader, _writer: None
    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    settings = Settings(
        host="127.0.0.1",
        port=0,
        endpoint=parse_endpoints([f"http://127.0.0.1:{port}"]),
        access_log=AccessLogSettings(enabled=False),
        log=LogSettings(level="error"),
    )
    runtime = Runtime(settings, load_config(builtin_config(), "built-in"))
    server = EppServer(runtime.app, runtime.proxy_settings, lane=FastLane(runtime.relay, runtime.app.relays))
    bound = bind_socket("127.0.0.1", 0)
    await runtime.start()
    serving = asyncio.create_task(server.serve([bound]))
    await server.started.wait()
    before = resident()
    clients = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CLIENTS,
        str(bound.getsockname()[1]),
        sent,
        stdout=asyncio.subprocess.PIPE,
    )
    await clients.stdout.readline()
    while sent == "waits" and runtime.relay.in_flight < CLIENTS:  # noqa: ASYNC110  it has no event of its own
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    grown = resident() - before
    clients.kill()
    await clients.wait()
    server.stop()
    await serving
    await runtime.stop()
    listening.close()
    return grown / CLIENTS


_CLIENTS = f"""
import socket, sys, time
body = {BODY!r}
head = b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
probe = b"GET /healthz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
kept = []
for _ in range({CLIENTS}):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    if sys.argv[2] != "nothing":
        connection.sendall(probe if sys.argv[2] == "probe" else head + body)
    if sys.argv[2] in ("probe", "answered"):
        assert b" 200 " in connection.recv(65536)
    kept.append(connection)
print(flush=True)
time.sleep(60)
"""

CASES: dict[str, Callable[[], float]] = {
    "an entry of the index, prompts of 4 KB": lambda: index_entry(16),
    "an entry of the index, prompts of 30 KB": lambda: index_entry(117),
    "an entry of the index, prompts of 120 KB": lambda: index_entry(468),
    "an idle connection of a client that has sent nothing": lambda: uvloop.run(_connections("nothing")),
    "an idle connection after a relayed answer": lambda: uvloop.run(_connections("answered")),
    "an idle connection after an answer of the router's own": lambda: uvloop.run(_connections("probe")),
    "a waiting request of 4 KB with both its connections": lambda: uvloop.run(_connections("waits")),
}


def main() -> None:
    """Print every figure, each from a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    case = parser.parse_args().case
    if case:
        print(json.dumps(CASES[case]()))
        return
    for name in CASES:
        command = [sys.executable, __file__, "--case", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"{float(done.stdout.splitlines()[-1]):10,.0f} bytes  {name}")


if __name__ == "__main__":
    main()
