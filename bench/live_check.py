"""A real router in front of real sockets against the simulator: `make live-check`.

    python -m bench.live_check [--engines 8] [--seconds 60] [--time-scale 4] [--tolerance 0.2] [--json FILE]

`epp serve` in front of `epp sim-server` processes that have the simulator's engine and step times, with the
same requests at the same times, for three policies. The simulator must rank the policies as the live router
does, and its mean time to first token must be near the live one; else the exit status is 1.

Servers run `--time-scale` times faster than the GPUs they model. A router cannot be sped up, so the simulated
fleet is sped up alike, and what is shown is real seconds on both sides. Engines begin each policy with empty
caches, the router anew.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench.suite.processes import hurry
from epp.simulate.experiment import load_config_or_policy
from epp.simulate.fleet import Fleet
from epp.simulate.inputs import read_fleet
from epp.simulate.outcome import percentile, summarise
from epp.simulate.processes import in_processes
from epp.simulate.prompts import Segment
from epp.simulate.runner import simulate
from epp.simulate.shared_prefix import SharedPrefix, Stage, ladder
from epp.simulate.workload import SimRequest, Workload

ROOT = Path(__file__).resolve().parents[1]
POLICIES = ("ttft-cost", "least-in-flight", "random")
DATA = SharedPrefix(
    num_groups=24, num_prompts_per_group=20, system_prompt_len=12_000, question_len=4_000, output_len=128
)
RATE_OF_A_SERVER = 0.5  # requests a second of the modelled time
STREAM_INTERVAL = 16
SCRAPE_S = 0.1  # real
SEED = 1
PATIENCE_S = 60.0
HIGHEST_TOKEN = 8_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Real seconds."""

    ttft_mean_s: float
    ttft_p90_s: float
    e2e_mean_s: float
    requests: int


@dataclass(frozen=True, slots=True)
class Row:
    """One policy, in the simulator and live; `late_s` is how late requests were sent in the mean."""

    policy: str
    simulated: Figures
    live: Figures
    late_s: float

    @property
    def error(self) -> float:
        """Live against simulated mean TTFT."""
        return self.live.ttft_mean_s / self.simulated.ttft_mean_s - 1


@dataclass(frozen=True, slots=True)
class Options:
    """What is run."""

    engines: int
    seconds: float
    time_scale: float
    policies: tuple[str, ...]

    def fleet_file(self) -> dict[str, Any]:
        """Of servers and simulator, in the modelled time."""
        return {"model": "qwen3-32b", "gpu": "h100", "tp": 2, "engines": self.engines, "blockTokens": 16}

    def fleet(self) -> Fleet:
        """The same in real time."""
        fleet, _ = read_fleet(self.fleet_file())
        scale, latency = self.time_scale, fleet.latency
        link = {
            "link_bytes_per_s": latency.link_bytes_per_s * scale,
            "link_latency_s": latency.link_latency_s / scale,
        }
        return replace(
            fleet,
            latency=replace(latency.scaled(1 / scale), **link),
            api_s=fleet.api_s / scale,
            api_token_s=fleet.api_token_s / scale,
            scrape_s=SCRAPE_S,
        )

    def workload(self) -> Workload:
        """Arrivals in real time."""
        rate = RATE_OF_A_SERVER * self.engines * self.time_scale
        return ladder(DATA, (Stage(rate, self.seconds),), SEED)


# -------------------------------------------------------------------- the simulator


def simulated(options: Options, jobs: int) -> dict[str, Figures]:
    """By policy; the router has the seed of the live one."""
    tasks = [(options, policy) for policy in options.policies]
    return dict(zip(options.policies, in_processes(_simulated, tasks, jobs), strict=True))


def _simulated(task: tuple[Options, str]) -> Figures:
    options, policy = task
    outcome = simulate(options.fleet(), load_config_or_policy(policy), options.workload(), seed=SEED)
    summary = summarise(outcome)
    return Figures(summary.ttft.mean, summary.ttft.p90, summary.e2e.mean, summary.requests)


# -------------------------------------------------------------------- processes


@contextlib.asynccontextmanager
async def process(log: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m epp …` of this checkout, its output in `log`; ended at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EPP_")}
    with log.open("wb") as output:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "epp", *arguments,
            stdout=output, stderr=output, env={**environment, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def address(child: asyncio.subprocess.Process, log: Path, words: str) -> str:
    """What follows `words` in the log, as soon as it is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            text = await asyncio.to_thread(log.read_text)
            if words in text and "\n" in text.partition(words)[2]:
                return text.partition(words)[2].split("\n")[0].split('"')[0].strip()
            if child.returncode is not None:
                raise RuntimeError(f"a process ended with {child.returncode}:\n{text}")
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def servers(options: Options, folder: Path) -> AsyncIterator[list[str]]:
    """URLs of the simulated servers."""
    fleet_file = folder / "fleet.yaml"
    fleet_file.write_text(yaml.safe_dump(options.fleet_file()))
    flags = (
        "sim-server", "--port", "0", "--fleet", str(fleet_file), "--time-scale", str(options.time_scale),
        "--stream-interval", str(STREAM_INTERVAL), "--dev-mode",
    )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        logs = [folder / f"server-{number}.log" for number in range(options.engines)]
        started = [await stack.enter_async_context(process(log, *flags)) for log in logs]
        yield [await address(child, log, "listening on ") for child, log in zip(started, logs, strict=True)]


@contextlib.asynccontextmanager
async def router(policy: str, urls: Sequence[str], folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of `epp serve`, which knows its endpoints."""
    config, log = folder / f"{policy}.yaml", folder / f"epp-{policy}.log"
    config.write_text(load_config_or_policy(policy).text)
    flags = [
        "serve", "--host", "127.0.0.1", "--port", "0", "--config", str(config), "--seed", str(SEED),
        "--slow-start", "0", "--metrics-refresh-interval", f"{SCRAPE_S}", "--log-format", "json",
        "--access-log-file", str(folder / f"access-{policy}.log"),
    ]  # fmt: skip
    for url in urls:
        flags += ["--endpoint", url]
    async with process(log, *flags) as child:
        url = await address(child, log, '"url":"')
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(
            base_url=url, trust_env=False, timeout=PATIENCE_S, limits=limits
        ) as client:
            await _until_known(client)
            yield client


async def _until_known(client: httpx.AsyncClient) -> None:
    """Every endpoint has told its models and its metrics."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            state = (await client.get("/debug/state?index=false")).json()["endpoints"]
            if all(endpoint["models"] and endpoint["fresh"] for endpoint in state):
                return
            await asyncio.sleep(0.05)


async def _forget_caches(urls: Sequence[str]) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        for url in urls:
            (await client.post(f"{url}/reset_prefix_cache")).raise_for_status()


# -------------------------------------------------------------------- load


@cache
def _tokens(segment: int, count: int) -> str:
    ids = random.Random(segment).choices(range(1, HIGHEST_TOKEN), k=count)
    return ",".join(map(str, ids))


def body_of(request: SimRequest) -> bytes:
    """A completion of token ids: two prompts begin alike exactly as far as their segments do."""
    end = 0
    parts = []
    for segment in request.segments:
        parts.append(_tokens(segment.identity, segment.end - end))
        end = segment.end
    fields = (
        f'"max_tokens":{request.output_tokens},"ignore_eos":true,"stream":true,'
        '"stream_options":{"include_usage":true}'
    )
    return f'{{"prompt":[{",".join(parts)}],{fields}}}'.encode()


def bodies_of(requests: Sequence[tuple[float, SimRequest]]) -> Iterator[bytes]:
    """In their order; equal prompts share their bytes."""
    known: dict[tuple[Segment, ...], bytes] = {}
    for _, request in requests:
        if request.segments not in known:
            known[request.segments] = body_of(request)
        yield known[request.segments]


async def send(client: httpx.AsyncClient, body: bytes, when: float) -> tuple[float, float, float]:
    """TTFT, duration and how late it was sent, in seconds."""
    await asyncio.sleep(when - time.monotonic())
    began = time.monotonic()
    first = 0.0
    headers = {"content-type": "application/json"}
    async with client.stream("POST", "/v1/completions", content=body, headers=headers) as response:
        if response.status_code != 200:
            raise RuntimeError(f"status {response.status_code}: {await response.aread()!r:.300}")
        async for _ in response.aiter_raw():
            first = first or time.monotonic()
    return first - began, time.monotonic() - began, began - when


async def live(options: Options, policy: str, urls: Sequence[str], folder: Path) -> tuple[Figures, float]:
    """One policy with all requests."""
    requests = list(options.workload().initial())
    bodies = list(bodies_of(requests))
    await _forget_caches(urls)
    async with router(policy, urls, folder) as client:
        start = time.monotonic() + 0.5
        sent = (send(client, body, start + after) for (after, _), body in zip(requests, bodies, strict=True))
        found = await asyncio.gather(*sent)
    ttfts, durations, late = (sorted(column) for column in zip(*found, strict=True))
    mean_s, e2e_s, late_s = (sum(column) / len(column) for column in (ttfts, durations, late))
    return Figures(mean_s, percentile(ttfts, 0.9), e2e_s, len(found)), late_s


# -------------------------------------------------------------------- verdict


def ranking(rows: Sequence[Row], side: str) -> tuple[str, ...]:
    """Policies, best mean TTFT first, on a side (`simulated` or `live`)."""
    return tuple(row.policy for row in sorted(rows, key=lambda row: getattr(row, side).ttft_mean_s))


def misses(rows: Sequence[Row], tolerance: float) -> list[str]:
    """What does not hold."""
    one, other = ranking(rows, "simulated"), ranking(rows, "live")
    found = [] if one == other else [f"ranking: {' < '.join(one)} simulated, {' < '.join(other)} live"]
    return found + [
        f"{row.policy}: mean TTFT is {row.error:+.0%} of the simulated, {tolerance:.0%} is allowed"
        for row in rows
        if abs(row.error) > tolerance
    ]


def table(rows: Sequence[Row]) -> str:
    """For a terminal."""
    lines = [
        "milliseconds            TTFT mean           TTFT P90          end to end       TTFT   sent",
        "                  simulated   live  simulated   live  simulated   live   error   late",
    ]
    for row in rows:
        one, other = row.simulated, row.live
        cells = "".join(
            f"{getattr(one, name) * 1e3:11.0f}{getattr(other, name) * 1e3:7.0f}"
            for name in ("ttft_mean_s", "ttft_p90_s", "e2e_mean_s")
        )
        lines.append(f"{row.policy:16s}{cells}{row.error:+8.0%}{row.late_s * 1e3:7.1f}")
    lines.append(f"best first, simulated: {' < '.join(ranking(rows, 'simulated'))}")
    lines.append(f"best first, live:      {' < '.join(ranking(rows, 'live'))}")
    return "\n".join(lines) + "\n"


# -------------------------------------------------------------------- command


async def measure(options: Options, expected: dict[str, Figures]) -> list[Row]:
    """Every policy live, beside what was expected."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with servers(options, folder) as urls:
            for policy in options.policies:
                print(f"live: {policy}", file=sys.stderr, flush=True)
                figures, late_s = await live(options, policy, urls, folder)
                rows.append(Row(policy, expected[policy], figures, late_s))
    return rows


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engines", type=int, default=8, help="servers (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load a policy (%(default)s)")
    parser.add_argument("--time-scale", type=float, default=4.0, help="of the servers (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=0.2, help="of mean TTFT (%(default)s)")
    parser.add_argument("--policies", nargs="+", default=POLICIES, help="by name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="simulations at a time")
    parser.add_argument("--json", metavar="FILE", help="all figures")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """0: the simulator tells what the live router does."""
    told = _parsed(argv)
    options = Options(told.engines, told.seconds, told.time_scale, tuple(told.policies))
    print("simulating", file=sys.stderr, flush=True)
    expected = simulated(options, told.jobs)
    hurry()
    rows = asyncio.run(measure(options, expected))
    found = misses(rows, told.tolerance)
    print(table(rows), end="")
    print("\n".join(f"MISS {miss}" for miss in found) or f"within {told.tolerance:.0%}, same ranking")
    if told.json:
        shown = {"options": asdict(options), "rows": [asdict(row) for row in rows], "misses": found}
        Path(told.json).write_text(json.dumps(shown, indent=2) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
