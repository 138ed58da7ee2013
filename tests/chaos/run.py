"""One run: a fleet, constant load, mischief, then calm; and what must hold of it."""

import asyncio
import gc
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from epp.config.builtin import builtin_config
from tests.chaos.events import CUTS, HANGS, Disturbance, Mischief
from tests.chaos.load import Load, Outcome
from tests.chaos.router import FIRST_BYTE_S, Stage, running
from tests.chaos.servers import HttpServer, InProcess, free_port, one_vocabulary

__all__ = ["Plan", "Report", "run"]

HOSTS = [f"127.0.0.{number}" for number in range(11, 19)]
RECOVERY_S = 5.0
_MARGIN_S = 1.0
"""How long after a disturbance its effect may still be seen: a stream is cut, then its client reads that."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`mischief_s` of events with pauses of `pause_s` between them, then `calm_s` without.

    `processes`: each server is a process of its own and dies by SIGKILL.
    """

    seed: int
    mischief_s: float
    calm_s: float = 8.0
    pause_s: tuple[float, float] = (0.1, 0.4)
    clients: int = 16
    lane: str = "fast"
    processes: bool = False


@dataclass
class Report:
    """What happened; `faults` is empty when everything held."""

    outcomes: list[Outcome] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    recoveries_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        good = sum(outcome.good for outcome in self.outcomes)
        allowed = Counter("504" if o.status == 504 else "cut" for o in self.outcomes if not o.good)
        slowest = max(self.recoveries_s, default=0.0)
        return [
            f"requests: {len(self.outcomes)}, good: {good}, other: {dict(allowed)}",
            f"events: {dict(sorted(self.events.items()))}",
            f"shares in calm: {', '.join(f'{share:.0%}' for share in self.shares.values())}",
            f"slowest recovery of traffic after a restart: {slowest:.1f} s of {len(self.recoveries_s)}",
            *(f"FAULT {fault}" for fault in self.faults[:40]),
            "verdict: " + ("passed" if not self.faults else f"FAILED, {len(self.faults)} faults"),
        ]


async def run(plan: Plan, say: Callable[[str], None] = lambda _line: None) -> Report:
    """Carry a plan out."""
    report = Report()
    port = free_port(HOSTS)
    with tempfile.TemporaryDirectory() as folder, one_vocabulary():
        config = Path(folder) / "config.yaml"
        config.write_text(builtin_config())
        servers = [(HttpServer if plan.processes else InProcess)(host, port) for host in HOSTS]
        try:
            await asyncio.gather(*(server.start() for server in servers))
            before = _resources()
            async with running(HOSTS, port, config, plan.lane) as stage:
                await _disturbed(plan, stage, servers, report, say)
                await _check_books(stage, report)
            await _check_resources(before, report)
        finally:
            await asyncio.gather(*(server.kill() for server in servers))
    return report


async def _disturbed(
    plan: Plan,
    stage: Stage,
    servers: list[InProcess | HttpServer],
    report: Report,
    say: Callable[[str], None],
) -> None:
    clock = asyncio.get_running_loop().time
    await _all_known(stage, len(servers))
    load = Load(stage.port, plan.seed, plan.clients)
    mischief = Mischief(stage, servers, random.Random(plan.seed), plan.pause_s)
    load.start()
    telling = asyncio.create_task(_tell(load, say))
    try:
        await mischief.run(plan.mischief_s)
        calm = clock()
        await asyncio.sleep(plan.calm_s)
    finally:
        telling.cancel()
        await load.stop()
    report.outcomes, report.events = load.outcomes, mischief.counts
    report.faults += [_told(o) for o in load.outcomes if not _is_allowed(o, mischief.log)]
    _check_recovery(report, mischief.log, calm + RECOVERY_S, [server.address for server in servers])


async def _all_known(stage: Stage, count: int) -> None:
    async with asyncio.timeout(30):
        pool = stage.runtime.core.table
        while len(pool.pool.endpoints) < count or not all(e.fresh and e.models for e in pool.pool.endpoints):
            await asyncio.sleep(0.05)


async def _tell(load: Load, say: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(5)
        bad = sum(not outcome.good for outcome in load.outcomes)
        say(f"  {len(load.outcomes)} requests, {bad} of them cut or 504")


def _is_allowed(outcome: Outcome, log: list[Disturbance]) -> bool:
    """Good, or cut with its server, or 504 after having hung."""
    if outcome.good:
        return True
    if outcome.status == 504:
        return outcome.ended - outcome.began >= FIRST_BYTE_S - 0.1 and any(
            d.kind in HANGS and _overlaps(outcome, d) for d in log
        )
    return outcome.status == 200 and any(
        d.kind in CUTS and d.endpoint == outcome.endpoint and _overlaps(outcome, d) for d in log
    )


def _overlaps(outcome: Outcome, disturbance: Disturbance) -> bool:
    return outcome.began <= disturbance.ended + _MARGIN_S and outcome.ended >= disturbance.began


def _told(o: Outcome) -> str:
    kind = "stream" if o.stream else "request"
    return f"{kind} of {o.ended - o.began:.2f} s: status {o.status}, {o.endpoint or 'router'}, {o.detail[:160]!r}"


def _check_recovery(report: Report, log: list[Disturbance], since: float, addresses: list[str]) -> None:
    """Whoever was killed gets traffic again within seconds, and in the end everybody has a share."""
    for killed in (d for d in log if d.kind == "kill"):
        later = (
            o.ended
            for o in report.outcomes
            if o.good and o.endpoint == killed.endpoint and o.began >= killed.ended
        )
        took_s = min(later, default=float("inf")) - killed.ended
        report.recoveries_s.append(took_s)
        if took_s > RECOVERY_S:
            report.faults.append(f"{killed.endpoint} had no traffic for {took_s:.1f} s after it was back")
    served = Counter(o.endpoint for o in report.outcomes if o.began >= since)
    total = max(1, served.total())
    report.shares = {address: served[address] / total for address in addresses}
    for address, share in report.shares.items():
        if share < 0.3 / len(addresses):
            report.faults.append(
                f"{address} has {share:.1%} of the traffic {RECOVERY_S:g} s after the last event"
            )


async def _check_books(stage: Stage, report: Report) -> None:
    """Nothing is in flight, and nothing is held for what is over."""
    core, relay = stage.runtime.core, stage.runtime.relay
    with_patience = asyncio.get_running_loop().time() + 5
    while core.state.ledger.total() and asyncio.get_running_loop().time() < with_patience:
        await asyncio.sleep(0.01)
    books = {
        "requests in the ledger": core.state.ledger.total(),
        "tokens in the ledger": sum(core.state.ledger.tokens),
        "requests in the relay": relay.in_flight,
        "buffered bytes": relay.buffered_bytes,
        "running requests": len(core.director.running.counts()),
        "active connections to endpoints": stage.runtime.pool.stats().active,
    }
    report.faults += [f"{count} {name} are left" for name, count in books.items() if count]
    core.state.index.check_integrity()
    if stage.runtime._failed:
        report.faults.append(f"background tasks ended: {stage.runtime._failed}")


def _resources() -> tuple[set[asyncio.Task[object]], int]:
    gc.collect()
    return asyncio.all_tasks(), len(list(Path("/proc/self/fd").iterdir()))


async def _check_resources(before: tuple[set[asyncio.Task[object]], int], report: Report) -> None:
    """No task and no descriptor is left. Servers in this process may still be closing their side."""
    tasks_before, descriptors_before = before
    for _ in range(100):
        tasks, descriptors = _resources()
        left = [task for task in tasks - tasks_before if "epp/simserver" not in repr(task)]
        if not left and descriptors <= descriptors_before:
            return
        await asyncio.sleep(0.05)
    report.faults += [f"a task is left: {task!r}" for task in left]
    if descriptors > descriptors_before:
        report.faults.append(f"{descriptors - descriptors_before} descriptors are left")
