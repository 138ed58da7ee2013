"""CPU time of one scheduling decision: candidates to first pick, for fleets of 8, 64 and 512 endpoints.

    python bench/scheduling.py [--cycles N]

Columns, in µs a decision: "kept" with the pool's snapshot unchanged since the last decision, "new" with one
endpoint scraped since, "naive" with a dictionary a scorer, as plugins of a map-returning contract would do
it, and its ratio to "kept". Every endpoint holds a tenth of the prompt, a quarter of them half, one nearly
all; the CPU tier of that quarter holds nearly all. Which endpoints those are differs from request to request,
as do scraped numbers and requests in flight from endpoint to endpoint.
"""

import argparse
import dataclasses
import gc
import random
import statistics
import time
from collections.abc import Callable

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec
from epp.request.types import Api, InferenceRequest
from epp.scheduling.contracts import Cycle, PrefixMatch, Scorer
from epp.scheduling.handlers.single_profile import SingleProfileHandler
from epp.scheduling.pickers.max_score import MaxScorePicker
from epp.scheduling.profile import SchedulingProfile
from epp.scheduling.scheduler import Scheduler
from epp.scheduling.scorers.active_request import ActiveRequestScorer
from epp.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.scheduling.scorers.prefix_cache import PrefixCacheScorer
from epp.scheduling.scorers.queue_depth import QueueScorer

BLOCKS = 468  # a prompt of 120 KB in blocks of 256 bytes
REPEATS = 7
VARIANTS = 97  # requests and snapshots that differ, before they come again


def endpoints(count: int, rng: random.Random) -> tuple[Endpoint, ...]:
    def one(slot: int) -> Endpoint:
        metrics = EndpointMetrics(waiting=float(rng.randrange(9)), kv_usage=rng.random())
        spec = EndpointSpec("http", f"10.0.{slot // 250}.{slot % 250}", 8000)
        return Endpoint(slot=slot, incarnation=1, spec=spec, metrics=metrics, fresh=True)

    return tuple(one(slot) for slot in range(count))


def matches(count: int, rng: random.Random) -> dict[str, PrefixMatch]:
    order = rng.sample(range(count), count)
    half = sum(1 << slot for slot in order[1 : count // 4])
    most = 1 << order[0]
    rest = (1 << count) - 1 - half - most
    gpu = ((rest, BLOCKS // 10), (half, BLOCKS // 2), (most, BLOCKS * 95 // 100))
    cpu = ((rest, BLOCKS // 10), (half | most, BLOCKS * 95 // 100))
    return {name: PrefixMatch(segments, BLOCKS, 64.0) for name, segments in (("gpu", gpu), ("cpu", cpu))}


def snapshots(count: int, rng: random.Random) -> list[tuple[Endpoint, ...]]:
    """Pools that follow each other, one scrape apart."""
    pools = [endpoints(count, rng)]
    for _ in range(VARIANTS - 1):
        pool = list(pools[-1])
        slot = rng.randrange(count)
        pool[slot] = dataclasses.replace(pool[slot], metrics=pool[rng.randrange(count)].metrics)
        pools.append(tuple(pool))
    return pools


def cycle(count: int, rng: random.Random) -> Cycle:
    ledger = Ledger()
    ledger.ensure(count - 1)
    for slot in range(count):
        for _ in range(rng.randrange(16)):
            ledger.take(slot, 100)
    request = InferenceRequest(Api.CHAT, "m", "", (), stream=True, body_bytes=120_000)
    return Cycle(
        request=request,
        model="m",
        adapter="",
        prompt_tokens=30_000,
        candidates=endpoints(count, rng),
        pool_version=1,
        matches=matches(count, rng),
        ledger=ledger,
        now=0.0,
    )


def scheduler(load: tuple[Scorer, float]) -> Scheduler:
    scorers: list[tuple[Scorer, float]] = [
        load,
        (KvCacheUtilizationScorer("kv"), 2.0),
        (PrefixCacheScorer("gpu", "gpu"), 1.0),
        (PrefixCacheScorer("cpu", "cpu"), 1.0),
    ]
    picker = MaxScorePicker("max-score-picker", random.Random(1))
    return Scheduler([SchedulingProfile("default", [], scorers, picker)], SingleProfileHandler("handler"))


PROFILES: dict[str, Callable[[], tuple[Scorer, float]]] = {
    "seed (queue 2, kv 2, gpu 1, cpu 1)": lambda: (QueueScorer("queue"), 2.0),
    "default (active-request 2, kv 2, gpu 1, cpu 1)": lambda: (ActiveRequestScorer("active", 8), 2.0),
}


def naive(c: Cycle) -> Endpoint:
    """The seed's four scorers, each a dictionary by address, then the best total."""

    def queue() -> dict[str, float]:
        waiting = {e.address: e.metrics.waiting for e in c.candidates}
        low, high = min(waiting.values()), max(waiting.values())
        return {a: 1.0 if high == low else (high - w) / (high - low) for a, w in waiting.items()}

    def prefix(m: PrefixMatch) -> dict[str, float]:
        return {e.address: m.blocks(e.slot) / m.total_blocks for e in c.candidates}

    kv = {e.address: 1.0 - e.metrics.kv_usage for e in c.candidates}
    scored = [(queue(), 2.0), (kv, 2.0), (prefix(c.matches["gpu"]), 1.0), (prefix(c.matches["cpu"]), 1.0)]
    totals = {e.address: 0.0 for e in c.candidates}
    for scores, weight in scored:
        for address, score in scores.items():
            totals[address] += weight * min(1.0, max(0.0, score))
    return max(c.candidates, key=lambda e: totals[e.address])


def measure(decide: Callable[[int], object], cycles: int) -> float:
    """Median over repeats of the mean CPU time of a call, in µs; `decide` gets the number of the call."""
    means = []
    for _ in range(REPEATS):
        gc.collect()
        started = time.process_time()
        for number in range(cycles):
            decide(number)
        means.append((time.process_time() - started) / cycles * 1e6)
    return statistics.median(means)


def row(name: str, load: Callable[[], tuple[Scorer, float]], count: int, cycles: int) -> str:
    rng = random.Random(count)
    base, chosen = cycle(count, rng), scheduler(load())
    requests = [dataclasses.replace(base, matches=matches(count, rng)) for _ in range(VARIANTS)]
    pools = snapshots(count, rng)

    def kept(number: int) -> Endpoint:
        request = dataclasses.replace(requests[number % VARIANTS])
        return next(iter(chosen.schedule(request).primary.order))

    def new(number: int) -> Endpoint:
        pool = pools[number % VARIANTS]
        request = dataclasses.replace(requests[number % VARIANTS], candidates=pool, pool_version=number)
        return next(iter(chosen.schedule(request).primary.order))

    kept_us, new_us = measure(kept, cycles), measure(new, cycles)
    naive_us = measure(lambda number: naive(requests[number % VARIANTS]), max(cycles // 10, 10))
    return f"{name:<48}{count:>5}{kept_us:>9.1f}{new_us:>9.1f}{naive_us:>9.1f}{naive_us / kept_us:>8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=1000, help="decisions a repeat")
    cycles = parser.parse_args().cycles
    print(f"{'profile':<48}{'n':>5}{'kept':>9}{'new':>9}{'naive':>9}{'ratio':>8}")
    for name, load in PROFILES.items():
        for count in (8, 64, 512):
            print(row(name, load, count, cycles))


if __name__ == "__main__":
    main()
