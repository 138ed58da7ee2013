"""A whole measurement: every session of every stack, run after run, and the programs that need no servers."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import plan
from .instructions import count
from .measuring import Bench, Running, index_fullness
from .plan import DECISION_ROWS, Session
from .processes import run_tool
from .progress import Progress
from .samples import Samples
from .stacks import Stack, epp
from .tools import ToolError

__all__ = ["Campaign", "Contest"]

FOLDER = Path(__file__).resolve().parents[1]
DECISION_S = 14.0  # estimated, of one run of the programs that need no servers
COUNTING_S = 35.0
DECISION_ENDPOINTS = (64, 512)
INDEX_REQUESTS = 3000
LIMIT_S = 300.0
FAILURES = 2  # after so many a stack is left out


@dataclass(frozen=True, slots=True)
class Contest:
    """What takes part. `python` runs the stack `epp` and the programs that need no servers."""

    stacks: tuple[Stack, ...]
    python: str
    skipped: dict[str, str]
    growth_peers: tuple[str, ...]


@dataclass(slots=True)
class Campaign:
    """`broken` is true if a figure of epp is missing or had errors."""

    bench: Bench
    contest: Contest
    rows: frozenset[str]
    runs: int
    say: Callable[[str], None]
    samples: Samples = field(default_factory=Samples)
    failures: Counter[str] = field(default_factory=Counter)
    broken: bool = False

    def run(self) -> Samples:
        """Everything; A B C A B C."""
        total = sum(session.estimate_s(stack.name, stack.mode) for _, session, stack in self._all())
        deciding = bool(self.rows & DECISION_ROWS)
        total += deciding * (DECISION_S * self.runs + COUNTING_S)
        progress = Progress(total, time.monotonic())
        for number in range(self.runs):
            for _, session, stack in self._of_run(number):
                what = f"run {number + 1}/{self.runs}, {session.name}: {stack.name}"
                self.say(progress.line(time.monotonic(), what))
                self._session(session, stack)
                progress.done(session.estimate_s(stack.name, stack.mode))
            if deciding:
                self.say(
                    progress.line(time.monotonic(), f"run {number + 1}/{self.runs}, decisions and index")
                )
                self._decisions()
                progress.done(DECISION_S)
        if deciding:
            self.say(progress.line(time.monotonic(), "instructions of a decision"))
            self._instructions()
        return self.samples

    def _all(self) -> Iterator[tuple[int, Session, Stack]]:
        for number in range(self.runs):
            yield from self._of_run(number)

    def _of_run(self, number: int) -> Iterator[tuple[int, Session, Stack]]:
        for session in plan.sessions_for(self.rows, number, self.runs):
            for stack in self.contest.stacks:
                peers = self.contest.growth_peers
                if plan.takes_part(session, stack.name, stack.mode, peers=peers):
                    yield number, session, stack

    def _session(self, session: Session, stack: Stack) -> None:
        if self.failures[stack.name] >= FAILURES:
            return
        try:
            self._measure(session, self._with_flags(session, stack))
        except ToolError as reason:
            self.failures[stack.name] += 1
            self.broken |= stack.name == "epp"
            self.say(f"  {stack.name} failed in {session.name}: {reason}")

    def _with_flags(self, session: Session, stack: Stack) -> Stack:
        if stack.name == "epp" and session.flags:
            return epp("epp", self.contest.python, session.flags)
        return stack

    def _measure(self, session: Session, stack: Stack) -> None:
        with self.bench.start(stack, session) as running:
            if session.name == "standard" and stack.command:
                time.sleep(0.5)
                start = {"ready_s": running.ready_s, "idle_mib": running.memory_mib()}
                self.samples.add("start", stack.name, start)
            if session.warm:
                running.warm()
            for step in session.steps:
                if plan.step_takes_part(step, stack.name, stack.mode):
                    self._step(step, stack, running)
            self._memory_after(session, stack, running)

    def _step(self, step: plan.Load | plan.Watch, stack: Stack, running: Running) -> None:
        found = running.measure(step)
        self.samples.add(step.name, stack.name, found)
        if found.get("errors"):
            self.broken |= stack.name == "epp"
            self.say(f"  {stack.name}: {found['errors']:.0f} errors in {step.name}: {running.last_error}")

    def _memory_after(self, session: Session, stack: Stack, running: Running) -> None:
        if session.name == "standard" and stack.command and "10" in self.rows:
            self.samples.add("after", stack.name, {"after_mib": running.memory_mib()})
        if session.name == "full":
            figures = {"full_mib": running.memory_mib(), "fullness": index_fullness(running.target)}
            self.samples.add("full-memory", stack.name, figures)

    def _decisions(self) -> None:
        found: dict[str, float] = {}
        try:
            counts = [str(count) for count in DECISION_ENDPOINTS]
            decided = json.loads(
                self._program("decision.py", "--json", "--requests", "1200", "--endpoints", *counts)
            )
            for count in DECISION_ENDPOINTS:
                found |= {f"{name}_{count}": value for name, value in decided[str(count)].items()}
                index = json.loads(
                    self._program("index.py", "--one", "index", str(count), str(INDEX_REQUESTS))
                )
                found |= index_figures(index, count)
        except ToolError as reason:
            self.broken = True
            self.say(f"  {reason}")
            return
        self.samples.add("decision", "epp", found)

    def _instructions(self) -> None:
        try:
            counted = count(self.contest.python)
        except ToolError as reason:
            self.say(f"  {reason}")
            return
        if counted is not None:
            self.samples.add("instructions", "epp", {"life": counted})

    def _program(self, name: str, *arguments: str) -> str:
        command = [self.contest.python, str(FOLDER / name), *arguments]
        return run_tool(command, self.bench.cores.proxy, LIMIT_S)


def index_figures(index: dict, count: int) -> dict[str, float]:
    """What is kept of the index's own benchmark."""
    longest = max(
        index[kind]["max"] for kind in ("look-up", "record", "record again", "shrink", "drop", "sweep")
    )
    return {
        f"lookup_us_{count}": index["look-up"]["mean"],
        f"record_us_{count}": index["record"]["mean"],
        f"index_longest_us_{count}": longest,
        f"bytes_entry_{count}": index["bytes per entry"],
    }
