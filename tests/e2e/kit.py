"""A router in the test's own loop, processes of epp, and waits that end as soon as they can."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import httpx
from prometheus_client.parser import text_string_to_metric_families

from epp.app.server import Started, serve_async
from epp.config import EffectiveConfig, Settings, load_config
from epp.config.builtin import builtin_config

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
_numbers = itertools.count()
DEFAULT_CONFIG = load_config(builtin_config(), "default.yaml")

# 2,000 tokens and more: 70 blocks of the index, 125 blocks of the engine.
LONG_TEXT = " ".join(
    f"Paragraph {n} tells what the committee decided in its meeting {n}." for n in range(150)
)


async def eventually(condition: Callable[[], object | Awaitable[object]]) -> object:
    """The first true value of `condition`, a function or a coroutine function."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            value = condition()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.01)


one_context = cache(
    ssl.create_default_context
)  # reading the system's authorities takes longer than a request


def new_client(url: str, **options: object) -> httpx.AsyncClient:
    """A client that no proxy of the environment gets in the way of."""
    options = {"verify": one_context()} | options
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S, **options)


def chat(content: str = "Hello", **fields: object) -> dict[str, object]:
    """A body of /v1/chat/completions."""
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 4, **fields}


@dataclass
class Router:
    """A running router and a client of it."""

    url: str
    admin_url: str | None
    client: httpx.AsyncClient
    serving: asyncio.Task[None]

    async def chat(self, content: str = "Hello", headers: dict[str, str] | None = None, **fields: object):
        """The answer to one chat request."""
        return await self.client.post("/v1/chat/completions", json=chat(content, **fields), headers=headers)

    async def sample(self, name: str, /, **labels: str) -> float:
        """Sum of the samples of a metric whose labels have these values; 0 when there is none."""
        return sum(v for found, v in await self.samples(name) if labels.items() <= found.items())

    async def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of every sample called `name`."""
        page = (await self.client.get("/metrics")).text
        families = list(text_string_to_metric_families(page))
        assert name in page, f"no family {name}"
        return [(s.labels, s.value) for family in families for s in family.samples if s.name == name]

    async def know(self, *models: str) -> None:
        """Wait until every endpoint has told its models, these among them, and its metrics."""

        async def known() -> bool:
            state = (await self.client.get("/debug/state?index=false")).json()["endpoints"]
            told = {model["id"] for endpoint in state for model in endpoint["models"] or ()}
            return all(e["models"] and e["fresh"] for e in state) and told >= set(models)

        await eventually(known)

    async def decisions(self, count: int) -> list[dict[str, object]]:
        """The last `count` requests that ended, oldest first, as soon as there are so many."""

        async def ended() -> list[dict[str, object]]:
            found = (await self.client.get(f"/debug/decisions?limit={count}")).json()
            return found[::-1] if len(found) == count else []

        return await eventually(ended)


@contextlib.asynccontextmanager
async def running_router(
    settings: Settings, config: EffectiveConfig = DEFAULT_CONFIG, shadow: EffectiveConfig | None = None
) -> AsyncIterator[Router]:
    """`serve` in the running loop, one at a time, since it takes the process's signals.

    What else it does to the process (log handlers) is undone; the collection at its start, which looks at all that
    this process of tests has loaded and takes longer than a test, is left out.
    """
    handlers, level = logging.root.handlers[:], logging.root.level
    started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_async(settings, config, started.set_result, shadow=shadow))
    try:
        with mock.patch("epp.app.server.calm_collector"):
            await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        urls = started.result()
        async with new_client(urls.url) as client:
            yield Router(urls.url, urls.admin_url, client, serving)
    finally:
        while not serving.done():  # the first signal drains, the second stops
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait({serving}, timeout=0.01)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


def free_port() -> int:
    """A port on which nobody listens at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


class Process:
    """`python -m epp …` with its output in files, so that it never waits for a reader."""

    def __init__(self, process: asyncio.subprocess.Process, out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        """Likewise."""
        return self._err.read_text()

    def log(self) -> list[dict[str, object]]:
        """The complete lines of the process log."""
        return [json.loads(line) for line in self.stderr.split("\n")[:-1] if line.startswith("{")]

    async def url(self, name: str = "url") -> str:
        """Where it listens, as soon as it does."""

        def told() -> object:
            assert self.process.returncode is None, self.stderr
            return next((line[name] for line in self.log() if line["message"] == "listening"), None)

        return str(await eventually(told))

    async def ended(self) -> int:
        """Its exit status."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)


@contextlib.asynccontextmanager
async def running_process(
    folder: Path, *arguments: str, module: tuple[str, ...] = ("epp",), **environment: str
) -> AsyncIterator[Process]:
    """`python -m epp` with arguments and environment variables; killed at the end if it still runs."""
    name = f"process-{next(_numbers)}"
    out, err = folder / f"{name}.out", folder / f"{name}.err"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("EPP_")}
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *module,
            *arguments,
            cwd=ROOT,
            env={**inherited, **environment},
            stdout=stdout,
            stderr=stderr,
        )
    try:
        yield Process(process, out, err)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
