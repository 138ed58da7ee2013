"""The workloads that policies are compared on, and the fleets that serve them.

A trace is the same for every seed, so a "seed" of a trace is a third of it: three parts of the recorded hour
that have nothing in common but the caches' cold start.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

from epp.simulate.fleet import Fleet, Offload
from epp.simulate.reference import REFERENCES, seed_fleet
from epp.simulate.shared_prefix import SharedPrefix, Stage, closed_loop, ladder
from epp.simulate.traces import TraceOptions, read_trace
from epp.simulate.workload import OpenLoop, Workload

TRACES = Path(__file__).parents[1] / "traces"
SEED_WORKLOADS = ("high native", "high HBM", "low native")
TRACE_WORKLOADS = ("conversation 1.0", "conversation 1.4", "synthetic 1.0")
WORKLOADS = (*SEED_WORKLOADS, "ladder", *TRACE_WORKLOADS)
OVERLOAD = "overload native"
REQUESTS = 1_350
PARTS = 3
LADDER_S = 30.0  # a stage; the published ladder has 60 s, which takes four times as long to simulate
OVERLOAD_RATE = 3.4  # requests a second: twice what the fleet sustains of the high-cache prompts


def is_trace(workload: str) -> bool:
    return workload in TRACE_WORKLOADS


def fleet_of(workload: str) -> Fleet:
    if workload in (*SEED_WORKLOADS, OVERLOAD):
        return seed_fleet(Offload.NONE if workload.endswith("HBM") else Offload.NATIVE)
    rows = {row.table: row.fleet for row in REFERENCES["llm-d-5-40qps"].rows}
    return replace(rows["GPU + CPU"], cpu_tokens=819_200 if workload == "ladder" else 656_000)


def requests_of(workload: str, seed: int) -> Workload:
    if workload in SEED_WORKLOADS:
        return closed_loop(_prompts(workload), requests=REQUESTS, concurrency=45, seed=seed)
    if workload == OVERLOAD:
        return ladder(_prompts("high"), (Stage(OVERLOAD_RATE, REQUESTS / OVERLOAD_RATE),), seed)
    if workload == "ladder":
        stages = tuple(Stage(rate, LADDER_S, 60.0) for rate in (5.0, 10.0, 20.0, 30.0, 40.0))
        return ladder(SharedPrefix(250, 5, 16_000, 256, 256), stages, seed)
    return third_of(whole_trace(workload), (seed - 1) % PARTS)


def _prompts(workload: str) -> SharedPrefix:
    return SharedPrefix(45, 10, 30_000 if workload.startswith("high") else 8_000, 256, 1_024, 1.053)


@cache
def whole_trace(workload: str) -> OpenLoop:
    name, speed = workload.split()
    return read_trace(TRACES / f"mooncake_{name}_trace.jsonl.gz", TraceOptions(speed=float(speed)))


def third_of(trace: OpenLoop, part: int) -> OpenLoop:
    arrivals = list(trace.initial())
    length = len(arrivals) // PARTS
    chosen = arrivals[part * length : (part + 1) * length]
    start = chosen[0][0]
    return OpenLoop([(when - start, request) for when, request in chosen])
