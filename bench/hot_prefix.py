"""How a hot prefix is spread, and whether conversations stay where their prefix is.

    python bench/hot_prefix.py [--repeats N] [--time-scale S] [--config FILE]… [--json]

Four simulated vLLM servers and the router, each a process of its own, started anew for every run:

- hot: one system prompt of 5,800 characters, 400 requests that differ in their last 300 characters, 32 at a
  time. `hottest` is the largest share of requests that one endpoint got.
- follow-ups: 16 conversations of 10 turns that share nothing with each other, each turn about 500 tokens
  longer, with pauses so that on average at most one request is in flight at an endpoint. `stay` is the share
  of turns after the first that went where the turn before them went, `in flight` the mean at an endpoint.
- `cached` is the share of prompt tokens that the servers say they had cached.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ("config/default.yaml", "config/tiered-prefix-cpu.yaml")
SERVERS = 4
HOT_REQUESTS, HOT_CONCURRENCY = 400, 32
SYSTEM_CHARACTERS, TAIL_CHARACTERS = 5800, 300
CONVERSATIONS, TURNS, TURN_CHARACTERS = 16, 10, 1700
ANSWER_TOKENS = 32
PAUSE_S = 2.0  # mean of the pause between two turns, in model seconds
START_S = 60.0


@dataclass
class Run:
    """What one scenario under one configuration showed."""

    config: str
    scenario: str
    shares: list[float]  # of requests, by endpoint, the largest first
    cached: float
    mean_s: float
    stay: float | None = None
    in_flight: float | None = None


@dataclass
class Traffic:
    """What clients saw, request by request."""

    endpoints: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0

    def shares(self) -> list[float]:
        counts = Counter(self.endpoints).most_common()
        found = [count / len(self.endpoints) for _, count in counts]
        return found + [0.0] * (SERVERS - len(found))

    def as_run(self, config: str, scenario: str) -> Run:
        cached = self.cached_tokens / self.prompt_tokens
        return Run(config, scenario, self.shares(), cached, statistics.fmean(self.seconds))


def words(rng: random.Random, characters: int) -> str:
    """Random words of altogether so many characters."""
    text = " ".join(
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(999)
    )
    return text[:characters]


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[str]:
    """`python -m epp …`; yields the URL it says it listens on."""
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-m", "epp", *arguments, "--host", "127.0.0.1", "--port", "0"]
        running = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, text=True)
        try:
            yield url_of(running, output.fileno())
        finally:
            running.terminate()
            running.wait()


def url_of(running: "subprocess.Popen[str]", descriptor: int) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and running.poll() is None:
        for line in Path(f"/proc/self/fd/{descriptor}").read_text().splitlines():
            if line.startswith("listening on "):
                return line.removeprefix("listening on ")
            if '"message":"listening"' in line:
                return str(json.loads(line)["url"])
        time.sleep(0.05)
    raise SystemExit(f"a process did not start: {Path(f'/proc/self/fd/{descriptor}').read_text()}")


@contextlib.asynccontextmanager
async def stack(config: str, seed: int, time_scale: float) -> AsyncIterator[httpx.AsyncClient]:
    """Servers and router; yields a client of the router that knows the model."""
    with contextlib.ExitStack() as running:
        server = ("sim-server", "--time-scale", str(time_scale), "--cpu-blocks", "16384", "--report-cpu-tier")
        urls = [running.enter_context(process(*server)) for _ in range(SERVERS)]
        endpoints = [word for url in urls for word in ("--endpoint", url)]
        router = (
            "serve",
            "--config",
            config,
            "--seed",
            str(seed),
            "--access-log-enabled",
            "false",
            *endpoints,
        )
        url = running.enter_context(process(*router))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False, limits=limits) as client:
            await scraped(client)
            yield client


async def scraped(client: httpx.AsyncClient) -> None:
    """Wait until the router has metrics and models of every endpoint."""
    async with asyncio.timeout(START_S):
        while True:
            state = (await client.get("/debug/state?index=false")).json()["endpoints"]
            if all(endpoint["fresh"] and endpoint["models"] for endpoint in state):
                return
            await asyncio.sleep(0.05)


async def ask(client: httpx.AsyncClient, messages: list[dict[str, str]], traffic: Traffic) -> tuple[str, str]:
    """One request; its endpoint and its answer's text."""
    started = time.monotonic()
    answer = await client.post(
        "/v1/chat/completions", json={"messages": messages, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
    )
    answer.raise_for_status()
    body = answer.json()
    endpoint = answer.headers["x-epp-endpoint"]
    traffic.endpoints.append(endpoint)
    traffic.seconds.append(time.monotonic() - started)
    traffic.prompt_tokens += body["usage"]["prompt_tokens"]
    traffic.cached_tokens += body["usage"]["prompt_tokens_details"]["cached_tokens"]
    return endpoint, body["choices"][0]["message"]["content"]


async def hot(client: httpx.AsyncClient, config: str, seed: int) -> Run:
    """One hot prefix at a constant concurrency."""
    rng, traffic, slots = random.Random(seed), Traffic(), asyncio.Semaphore(HOT_CONCURRENCY)
    system = words(rng, SYSTEM_CHARACTERS)

    async def one(question: str) -> None:
        async with slots:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            await ask(client, messages, traffic)

    await asyncio.gather(*[one(words(rng, TAIL_CHARACTERS)) for _ in range(HOT_REQUESTS)])
    return traffic.as_run(config, "hot")


async def conversations(client: httpx.AsyncClient, config: str, seed: int, time_scale: float) -> Run:
    """Conversations with pauses between their turns."""
    traffic, stayed = Traffic(), Counter[bool]()

    async def talk(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        messages: list[dict[str, str]] = []
        before = None
        for _ in range(TURNS):
            await asyncio.sleep(rng.expovariate(1 / PAUSE_S) / time_scale)
            messages.append({"role": "user", "content": words(rng, TURN_CHARACTERS)})
            endpoint, text = await ask(client, messages, traffic)
            messages.append({"role": "assistant", "content": text})
            if before is not None:
                stayed[endpoint == before] += 1
            before = endpoint

    started = time.monotonic()
    await asyncio.gather(*[talk(number) for number in range(CONVERSATIONS)])
    run = traffic.as_run(config, "follow-ups")
    run.stay = stayed[True] / stayed.total()
    run.in_flight = sum(traffic.seconds) / (time.monotonic() - started) / SERVERS
    return run


async def measure(config: str, seed: int, time_scale: float) -> list[Run]:
    """Both scenarios, each on servers that have seen nothing."""
    async with stack(config, seed, time_scale) as client:
        hot_run = await hot(client, config, seed)
    async with stack(config, seed, time_scale) as client:
        return [hot_run, await conversations(client, config, seed, time_scale)]


HEADER = (
    f"{'configuration':<34}{'scenario':<12}{'hottest':>8}{'stay':>8}{'in flight':>11}{'cached':>8}"
    f"{'mean s':>8}  shares"
)


def row(run: Run) -> str:
    stay = "" if run.stay is None else f"{run.stay:.1%}"
    in_flight = "" if run.in_flight is None else f"{run.in_flight:.2f}"
    shares = " ".join(f"{share:.3f}" for share in run.shares)
    return (
        f"{run.config:<34}{run.scenario:<12}{run.shares[0]:>8.1%}{stay:>8}{in_flight:>11}{run.cached:>8.1%}"
        f"{run.mean_s:>8.3f}  {shares}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=1, help="runs, each with another seed (%(default)s)")
    parser.add_argument("--time-scale", type=float, default=1.0, help="model seconds in one real second")
    parser.add_argument("--config", action="append", help="configurations to compare (the two shipped ones)")
    parser.add_argument("--json", action="store_true", help="one JSON object a run instead of a table")
    arguments = parser.parse_args()
    if not arguments.json:
        print(HEADER)
    for seed in range(1, arguments.repeats + 1):
        for config in arguments.config or CONFIGS:
            for run in asyncio.run(measure(config, seed, arguments.time_scale)):
                print(json.dumps(asdict(run)) if arguments.json else row(run), flush=True)


if __name__ == "__main__":
    main()
