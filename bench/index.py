"""What the prefix index costs under conversation traffic, beside one ordered dictionary an endpoint.

    .venv/bin/python bench/index.py [--quick] [--endpoints 8 64 512]

Traffic: prompts of 120 KB in 256-byte blocks of 64 tokens (468 on average). A conversation opens with one of
eight shared system prompts, grows by 20 blocks a turn, stays on its endpoint in 85 of 100 turns and ends
after 12. There are more conversations than the tiers hold. Two views: 31,250 and 41,000 engine blocks of 16
tokens. A request is one look-up in both views, a record in each, 300 generated tokens in the first, and a
second record when it ends.

Times are CPU time of this process in µs, less the clock's own; the garbage collector is off while they are
taken (the index makes no reference cycles) and a full collection is timed alone. Memory is what the resident
set grew by while the index filled, in a process of its own, by index entries of both views together.
"""

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import time
from array import array
from collections import OrderedDict
from pathlib import Path

from epp.prefix import PrefixIndex

BLOCK_TOKENS = 64
CAPACITIES_TOKENS = (31_250 * 16, 41_000 * 16)
SYSTEM_BLOCKS = 47
FIRST_BLOCKS = 348
TURN_BLOCKS = 20
TURNS = 12
CONVERSATIONS_PER_ENDPOINT = 24
BATCH = 32
ANSWER_TOKENS = 300


class Traffic:
    """An endless stream of (endpoint, chain)."""

    def __init__(self, endpoints: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.endpoints = endpoints
        self.systems = [self.hashes(SYSTEM_BLOCKS) for _ in range(8)]
        self.conversations = [self.conversation() for _ in range(endpoints * CONVERSATIONS_PER_ENDPOINT)]
        for conversation in self.conversations:
            conversation[2] = self.random.randrange(TURNS)

    def hashes(self, count: int) -> array:
        return array("Q", self.random.randbytes(8 * count))

    def conversation(self) -> list:
        tail = self.hashes(FIRST_BLOCKS + TURN_BLOCKS * TURNS - SYSTEM_BLOCKS)
        return [self.random.choice(self.systems), tail, 0, self.random.randrange(self.endpoints)]

    def next(self) -> tuple[int, list[int]]:
        place = self.random.randrange(len(self.conversations))
        if self.conversations[place][2] == TURNS:
            self.conversations[place] = self.conversation()
        conversation = self.conversations[place]
        system, tail, turn, _ = conversation
        conversation[2] += 1
        if self.random.random() >= 0.85:
            conversation[3] = self.random.randrange(self.endpoints)
        return conversation[3], (system + tail)[: FIRST_BLOCKS + TURN_BLOCKS * turn].tolist()


class Naive:
    """One ordered dictionary of blocks for each view and endpoint."""

    def __init__(self, endpoints: int) -> None:
        self.views = [[OrderedDict() for _ in range(endpoints)] for _ in CAPACITIES_TOKENS]

    def match(self, chain: list[int]) -> list[list[int]]:
        return [[self.length(held, chain) for held in view] for view in self.views]

    @staticmethod
    def length(held: OrderedDict, chain: list[int]) -> int:
        for depth, block in enumerate(chain):
            if block not in held:
                return depth
        return len(chain)

    def touch(self, view: int, slot: int, chain: list[int], block_tokens: int) -> None:
        held = self.views[view][slot]
        for block in reversed(chain):
            held[block] = None
            held.move_to_end(block)
        for _ in range(len(held) - CAPACITIES_TOKENS[view] // block_tokens):
            held.popitem(last=False)

    def occupy(self, view: int, slot: int, tokens: int) -> None:
        """It knows of prompts only."""


def tiered_index() -> PrefixIndex:
    index = PrefixIndex()
    for capacity in CAPACITIES_TOKENS:
        index.add_view(capacity)
    return index


def serve(index, traffic: Traffic, requests: int) -> None:
    for _ in range(requests):
        slot, chain = traffic.next()
        for view in (0, 1):
            index.touch(view, slot, chain, BLOCK_TOKENS)
        index.occupy(0, slot, ANSWER_TOKENS)
        for view in (0, 1):
            index.touch(view, slot, chain, BLOCK_TOKENS)


def figures(samples_us: list[float]) -> dict[str, float]:
    ordered = sorted(samples_us)
    return {"p99": ordered[len(ordered) * 99 // 100], "max": ordered[-1]}


class Stopwatch:
    """CPU time of this thread in µs; its own cost is subtracted."""

    def __init__(self) -> None:
        self.overhead_ns = 0
        self.overhead_ns = min(self.of(int) for _ in range(1000)) * 1000

    def of(self, call, *arguments) -> float:
        started = time.thread_time_ns()
        call(*arguments)
        return (time.thread_time_ns() - started - self.overhead_ns) / 1000


def look_up(index, batch: list) -> None:
    for _, chain in batch:
        index.match(chain)


def record(index, batch: list) -> None:
    for slot, chain in batch:
        index.touch(0, slot, chain, BLOCK_TOKENS)
        index.touch(1, slot, chain, BLOCK_TOKENS)


def answer(index, batch: list) -> None:
    for slot, _ in batch:
        index.occupy(0, slot, ANSWER_TOKENS)


def measure(index, traffic: Traffic, requests: int) -> dict[str, dict[str, float]]:
    """µs a call: means over batches, the rest call by call (where the clock's system call costs a third)."""
    watch = Stopwatch()
    totals = {"look-up": 0.0, "record": 0.0, "record again": 0.0}
    for _ in range(requests // BATCH):
        batch = [traffic.next() for _ in range(BATCH)]
        totals["look-up"] += watch.of(look_up, index, batch) / BATCH
        totals["record"] += watch.of(record, index, batch) / BATCH / 2
        answer(index, batch)
        totals["record again"] += watch.of(record, index, batch) / BATCH / 2
    singles: dict[str, list[float]] = {kind: [] for kind in totals}
    for _ in range(requests):
        slot, chain = traffic.next()
        singles["look-up"].append(watch.of(index.match, chain))
        for kind in ("record", "record again"):
            for view in (0, 1):
                singles[kind].append(watch.of(index.touch, view, slot, chain, BLOCK_TOKENS))
            index.occupy(0, slot, ANSWER_TOKENS)
    return {
        kind: {"mean": total / (requests // BATCH), **figures(singles[kind])}
        for kind, total in totals.items()
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_index(endpoints: int, requests: int) -> dict:
    traffic = Traffic(endpoints, seed=endpoints)
    serve(tiered_index(), Traffic(2, seed=0), 50)  # what first calls allocate is not the index's
    gc.collect()
    before = resident_bytes()
    index = tiered_index()
    serve(index, traffic, endpoints * CONVERSATIONS_PER_ENDPOINT * 2)
    entries = index.size(0) + index.size(1)
    used = resident_bytes() - before
    gc.collect()
    started = time.thread_time()
    gc.collect()
    collection = time.thread_time() - started
    gc.disable()
    return {
        "endpoints": endpoints,
        **measure(index, traffic, requests),
        "bytes per entry": used / entries,
        "entries": entries,
        "runs": index.nodes(),
        "collection ms": collection * 1000,
        **measure_upkeep(index),
    }


def measure_upkeep(index: PrefixIndex) -> dict[str, dict[str, float]]:
    """Longest steps of what happens to a slot: a smaller capacity, and its end."""
    watch = Stopwatch()
    samples: dict[str, list[float]] = {"shrink": [], "drop": [], "sweep": []}
    for slot in range(8):
        samples["shrink"].append(watch.of(index.set_capacity, 0, slot, 10_000))
        samples["drop"].append(watch.of(index.drop, slot))
        while index.busy(slot):
            samples["sweep"].append(watch.of(index.sweep, 256))
    return {kind: figures(each) for kind, each in samples.items()}


def run_naive(endpoints: int, requests: int) -> dict:
    traffic = Traffic(endpoints, seed=endpoints)
    gc.collect()
    before = resident_bytes()
    naive = Naive(endpoints)
    serve(naive, traffic, endpoints * CONVERSATIONS_PER_ENDPOINT * 2)
    entries = sum(len(held) for view in naive.views for held in view)
    used = resident_bytes() - before
    gc.disable()
    return {
        "endpoints": endpoints,
        **measure(naive, traffic, requests),
        "bytes per entry": used / entries,
        "entries": entries,
    }


def in_own_process(kind: str, endpoints: int, requests: int) -> dict:
    command = [sys.executable, __file__, "--one", kind, str(endpoints), str(requests)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def show(name: str, row: dict) -> None:
    cells = [f"{name:8} {row['endpoints']:4}"]
    for kind in ("look-up", "record", "record again"):
        figures = row[kind]
        cells.append(f"{figures['mean']:9.1f} {figures['p99']:9.1f} {figures['max']:9.1f}")
    cells.append(f"{row['bytes per entry']:8.1f} {row['entries']:9,}")
    print(" |".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Costs of the prefix index.")
    parser.add_argument("--quick", action="store_true", help="fewer requests, and no naive index above 64")
    parser.add_argument("--endpoints", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, endpoints, requests = arguments.one
        run = {"index": run_index, "naive": run_naive}[kind]
        print(json.dumps(run(int(endpoints), int(requests))))
        return
    print(
        f"CPU µs{'':7} | {'look-up mean / p99 / max':>29} | {'record mean / p99 / max':>29} "
        f"| {'record again':>29} | B/entry  entries"
    )
    for endpoints in arguments.endpoints:
        row = in_own_process("index", endpoints, 1000 if arguments.quick else 10_000)
        show("index", row)
        upkeep = ", ".join(f"{kind} {row[kind]['max']:.0f}" for kind in ("shrink", "drop", "sweep"))
        collection = f"full collection {row['collection ms']:.1f} ms"
        print(f"{'':14}  {row['runs']:,} runs; longest {upkeep} µs; {collection}")
        if endpoints > 64 and arguments.quick:
            continue
        naive = in_own_process("naive", endpoints, 3 * BATCH)
        show("naive", naive)
        kinds = ("look-up", "record")
        ratios = ", ".join(f"{kind} {naive[kind]['mean'] / row[kind]['mean']:.0f} x" for kind in kinds)
        memory = naive["bytes per entry"] / row["bytes per entry"]
        print(f"{'':14}  naive / index: {ratios}, memory {memory:.0f} x")


if __name__ == "__main__":
    main()
