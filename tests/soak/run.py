"""One soak: a router as a process, many requests, and what its memory, index and decisions do meanwhile."""

import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from prometheus_client.parser import text_string_to_metric_families

from tests.soak.clients import Clients
from tests.soak.endpoints import endpoints

__all__ = ["Plan", "Report", "Sample", "run"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SLACK_TOKENS = 4_000
"""One prompt and its answer: a view is cut back when the claim is in."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`requests` in `steps` equal steps; a sample is taken after each, and the first fifth are warm-up."""

    requests: int
    seed: int = 1
    steps: int = 50
    clients: int = 64
    endpoints: int = 8
    lane: str = "fast"
    memory_growth: float = 0.05
    decision_growth: float | None = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    """After a step.

    Attributes:
        decisions: cumulative buckets of `epp_decision_seconds`, in CPU time, since the start.
        yardstick_s: CPU times of a piece of work that is always the same, the usual one and the slowest of a
            hundred: what the machine is worth now, and what it does to whoever shares it.
    """

    resident_bytes: int
    entries: int
    most_tokens_over: float
    decisions: Mapping[float, float]
    yardstick_s: tuple[float, float] = (1.0, 1.0)


@dataclass
class Report:
    """What was seen; `faults` is empty when everything stayed flat."""

    samples: list[Sample] = field(default_factory=list)
    aborted: int = 0
    done: int = 0
    faults: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        verdict = "passed" if not self.faults else "FAILED"
        return [*self.figures, *(f"FAULT {fault}" for fault in self.faults), f"verdict: {verdict}"]


async def run(plan: Plan, say: Callable[[str], None] = lambda _line: None) -> Report:
    """Carry a plan out."""
    report = Report()
    async with endpoints(plan.endpoints) as urls:
        with tempfile.TemporaryDirectory() as folder:
            process = await _start(plan, urls, Path(folder))
            try:
                await _soak(plan, process.pid, await _url(Path(folder)), report, say)
            finally:
                process.terminate()
                await process.wait()
    _judge(plan, report)
    return report


async def _start(plan: Plan, urls: list[str], folder: Path) -> asyncio.subprocess.Process:
    """`epp serve` with the built-in configuration."""
    arguments = ["--host", "127.0.0.1", "--port", "0", "--lane", plan.lane, "--seed", str(plan.seed)]
    for url in urls:
        arguments += ["--endpoint", url]
    with (folder / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.soak.router",
            "serve",
            *arguments,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
        )


async def _url(folder: Path) -> str:
    """Where the router listens, as soon as it does."""
    async with asyncio.timeout(60):
        while True:
            for line in (folder / "log").read_text().splitlines():
                if '"listening"' in line:
                    return json.loads(line)["url"]
            await asyncio.sleep(0.1)


async def _soak(plan: Plan, pid: int, url: str, report: Report, say: Callable[[str], None]) -> None:
    clients = Clients(int(url.rpartition(":")[2]), plan.seed, plan.clients)
    await _ready(url)
    for step in range(1, plan.steps + 1):
        await clients.send(plan.requests // plan.steps)
        sample = await _sample(pid, url)
        report.samples.append(sample)
        if step % max(1, plan.steps // 25) == 0:
            say(f"  {clients.done} requests, {sample.resident_bytes / 1e6:.1f} MB, {sample.entries} entries")
    await _at_rest(url, report)
    report.done, report.aborted = clients.done, clients.aborted
    report.faults += (
        [f"{len(clients.bad)} answers were not 200, such as {clients.bad[0]!r}"] if clients.bad else []
    )


async def _ready(url: str) -> None:
    """Every endpoint has told its models and its metrics."""
    async with asyncio.timeout(30):
        while True:
            state = json.loads(await _page(f"{url}/debug/state?index=false"))["endpoints"]
            if all(endpoint["models"] and endpoint["fresh"] for endpoint in state):
                return
            await asyncio.sleep(0.1)


async def _at_rest(url: str, report: Report) -> None:
    """Nothing is in flight when nobody asks any more."""
    for _ in range(50):
        held = {**_values(await _page(f"{url}/metrics"), "epp_inflight_requests", "epp_buffered_bytes")}
        if not any(held.values()):
            return
        await asyncio.sleep(0.1)
    report.faults.append(f"at rest there are still {held}")


async def _sample(pid: int, url: str) -> Sample:
    page = await _page(f"{url}/metrics")
    tokens = _values(page, "epp_index_tokens")
    capacities = _values(page, "epp_index_capacity_tokens")
    over = [tokens[labels] - capacities[labels] for labels in tokens]
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    buckets = {
        float(dict(labels)["le"]): value
        for labels, value in _values(page, "epp_decision_seconds_bucket").items()
    }
    entries = int(sum(_values(page, "epp_index_entries").values()))
    return Sample(resident, entries, max(over), buckets, _yardstick_s())


def _yardstick_s() -> tuple[float, float]:
    """As long as a decision, since one that loses the processor meanwhile finds its caches cold."""

    def once() -> float:
        started = time.thread_time()
        table = {number: str(number) for number in range(300)}
        sum(len(table[number]) for number in sorted(table, reverse=True))
        return time.thread_time() - started

    times = sorted(once() for _ in range(500))
    return times[len(times) // 2], times[-len(times) // 100]


async def _page(url: str) -> str:
    def ask() -> str:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()

    return await asyncio.to_thread(ask)


def _values(page: str, *names: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Values of the samples with these names, by their labels."""
    families = text_string_to_metric_families(page)
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name in names
    }


def _judge(plan: Plan, report: Report) -> None:
    """Compare the first and the last quarter of what came after the warm-up."""
    steady = report.samples[len(report.samples) // 5 :]
    quarter = max(1, len(steady) // 4)
    first, last = steady[:quarter], steady[-quarter:]
    before, after = (fmean(sample.resident_bytes for sample in part) for part in (first, last))
    growth, over = after / before - 1, max(sample.most_tokens_over for sample in steady)
    report.figures += [
        f"requests: {report.done}, aborted: {report.aborted}",
        f"resident: {before / 1e6:.1f} MB, then {after / 1e6:.1f} MB ({growth:+.1%})",
        f"index: {report.samples[-1].entries} entries, at most {max(0, over):.0f} tokens over a view's capacity",
    ]
    if growth > plan.memory_growth:
        report.faults.append(f"memory grew by {growth:.1%}, more than {plan.memory_growth:.0%}")
    if over > _SLACK_TOKENS:
        report.faults.append("a view holds more tokens than its capacity")
    _judge_decisions(plan, report, first, last)


def _judge_decisions(plan: Plan, report: Report, first: list[Sample], last: list[Sample]) -> None:
    """The usual decision and the slowest of a hundred, each against its yardstick."""
    if len(first) < 2:
        return
    for place, (name, share) in enumerate((("median", 0.5), ("p99", 0.99))):
        (before, scale), (after, scale_after) = (_typical(part, share, place) for part in (first, last))
        pace = scale_after / scale
        report.figures.append(
            f"{name} of a decision, CPU time, the usual step: {before * 1e6:.0f} µs, then {after * 1e6:.0f} µs "
            f"while the yardstick took {pace:.2f} times as long"
        )
        if plan.decision_growth is not None and after > before * pace * (1 + plan.decision_growth):
            report.faults.append(f"decisions became slower: the {name}")


def _typical(part: list[Sample], share: float, place: int) -> tuple[float, float]:
    """Medians over the steps, of the percentile and of the yardstick: one bad step says nothing."""
    return (
        median(percentile_s(begin.decisions, end.decisions, share) for begin, end in pairwise(part)),
        median(sample.yardstick_s[place] for sample in part),
    )


def percentile_s(begin: Mapping[float, float], end: Mapping[float, float], share: float) -> float:
    """A percentile of what was observed between two looks at a histogram, interpolated in its bucket."""
    counts = {bound: end[bound] - begin.get(bound, 0.0) for bound in sorted(end)}
    wanted = share * max(counts.values())
    lower, below = 0.0, 0.0
    for bound, count in counts.items():
        if count >= wanted:
            inside = count - below
            return lower + (min(bound, 10.0) - lower) * ((wanted - below) / inside if inside else 1.0)
        lower, below = bound, count
    return lower
