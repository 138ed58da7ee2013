"""Routing policies in simulation, against the bars that docs/simulation.md states: `make policies`.

Every policy of a workload gets the same requests. What is printed is also written to
bench/results/policies.json and bench/results/policies.md.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from epp.simulate.experiment import load_config_or_policy
from epp.simulate.processes import in_processes
from epp.simulate.progress import ProgressLine
from epp.simulate.reference import REFERENCES, run_reference
from epp.simulate.runner import simulate

from .bars import LEAST, OLD, OURS, PEERS, Bar, overload_bars, policy_bars, robustness_bars, speed_bars
from .page import as_markdown, as_text
from .runs import Belief, Task, figures, run
from .workloads import OVERLOAD, WORKLOADS, fleet_of, whole_trace

RESULTS = Path(__file__).parents[1] / "results" / "policies"
POLICIES = (OURS, "default", OLD, LEAST, *PEERS)
SPEED = "speed"
MISTAKEN = "high native, mistaken"
PARTS = (*WORKLOADS, MISTAKEN, OVERLOAD, SPEED)
# An A100 computes 3.2 times slower than an H100, and half as many bytes pass its link.
WRONG = {
    "latency believed 0.5 x": (Belief(latency=0.5), 0.0),
    "latency believed 2 x": (Belief(latency=2.0), 0.0),
    "latency 0.5 x, never learning": (Belief(latency=0.5, learns=False), 0.0),
    "latency 2 x, never learning": (Belief(latency=2.0, learns=False), 0.0),
    "bandwidth believed 4 x": (Belief(load=0.25), 0.0),
    "bandwidth believed 1/4": (Belief(load=4.0), 0.0),
    "10 % step noise": (None, 0.10),
    "profile of an A100": (Belief(latency=3.2, load=2.0), 0.0),
}


def main() -> int:
    arguments = parse(sys.argv[1:])
    results = load(arguments.seeds)
    for part in arguments.part or PARTS:
        results["figures"][part] = results["figures"].get(part, {}) | measured(part, arguments)
        write(results)
    bars = bars_of(results["figures"])
    for bar in bars:
        print("met   " if bar.met else "MISSED", bar_text(bar))
    return 0 if all(bar.met for bar in bars) else 1


def parse(words):
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of each policy and workload (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="only this one, beside what was measured before"
    )
    parser.add_argument("--policy", action="append", choices=POLICIES, help="only this one, likewise")
    return parser.parse_args(words)


def measured(part: str, arguments) -> dict:
    """Figures by policy, or by what a router is mistaken in."""
    seeds = range(1, arguments.seeds + 1)
    if part == SPEED:
        return speed()
    if part == MISTAKEN:
        named = {
            name: [Task(OURS, "high native", n, noise, belief) for n in seeds]
            for name, (belief, noise) in WRONG.items()
        }
    else:
        policies = (OURS, LEAST, OLD) if part == OVERLOAD else POLICIES
        wanted = [policy for policy in policies if policy in (arguments.policy or policies)]
        named = {policy: [Task(policy, part, n) for n in seeds] for policy in wanted}
    tasks = [task for group in named.values() for task in group]
    names = [name for name, group in named.items() for _ in group]
    found = {}
    for name, row in rows(names, tasks, arguments.jobs):
        found[name] = row
        print(as_text(part, name, row), flush=True)
    return found


def rows(names, tasks, jobs):
    """(name, figures), in the order of the tasks, seeds together."""
    progress = ProgressLine("runs")

    def told():
        for done, one in enumerate(zip(names, in_processes(run, tasks, jobs), strict=True), 1):
            progress(done, len(tasks))
            yield one

    for name, group in groupby(told(), key=itemgetter(0)):
        yield name, figures([one for _, one in group])
    progress.close()


def speed() -> dict[str, float]:
    """CPU time that the simulator takes, on one core; what else runs on the machine still makes it longer."""
    reference = REFERENCES["seed"]
    row = next(row for row in reference.rows if (row.table, row.row) == ("high cache", "CPU offload"))
    workload = "conversation 1.0"
    one, one_s = timed(
        simulate, row.fleet, load_config_or_policy(row.policy), reference.workload(row, 1), seed=1
    )
    _, table_s = timed(run_reference, reference, (1, 2, 3))
    trace, trace_s = timed(
        lambda: simulate(fleet_of(workload), load_config_or_policy(OURS), whole_trace(workload), seed=1)
    )
    return {
        "seed row, s": one_s,
        "seed table of 3 seeds, s": table_s,
        "conversation trace, s": trace_s,
        "share of router code": max(run.router_s / run.wall_s for run in (one, trace)),
    }


def timed(work, *arguments, **named):
    started = time.process_time()
    result = work(*arguments, **named)
    return result, time.process_time() - started


def bar_text(bar: Bar) -> str:
    sign = ">=" if bar.least else "<="
    return f"{bar.name}{f' ({bar.against})' if bar.against else ''}: {bar.value:,.3f} {sign} {bar.bar:,g}"


def load(seeds: int) -> dict:
    """What was measured before with as many seeds."""
    path = RESULTS.with_suffix(".json")
    if path.exists() and (results := json.loads(path.read_text(encoding="utf-8")))["seeds"] == seeds:
        return results
    return {"seeds": seeds, "figures": {}}


def bars_of(found: dict) -> list[Bar]:
    """Every bar that the figures allow to judge."""
    bars = list(policy_bars({part: found[part] for part in WORKLOADS if part in found}))
    exact = found.get("high native", {}).get(OURS)
    if exact and MISTAKEN in found:
        bars += robustness_bars(exact, found[MISTAKEN])
    bars += overload_bars(found.get(OVERLOAD, {}))
    return [*bars, *speed_bars(found.get(SPEED, {}))]


def write(results: dict) -> None:
    found = results["figures"]
    bars = bars_of(found)
    shown = results | {"bars": [{**asdict(bar), "met": bar.met} for bar in bars]}
    RESULTS.with_suffix(".json").write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    tables = {part: found[part] for part in PARTS if part in found and part != SPEED}
    RESULTS.with_suffix(".md").write_text(as_markdown(tables, bars, results["seeds"]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
