"""About a minute: has epp become slower since bench/results/latest.json was measured?

    python bench/smoke.py [--runs 2]

Compares epp's CPU a unit in multiples of nginx's, both measured now, with the ratios of the committed
results, and the instructions of a request's life in the core where valgrind is installed. Ratios carry over
between machines better than seconds; a busy machine still blurs them, so what slid is shown and the
exit code stays 0.
"""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from suite import plan, programs, results, stacks, tools
from suite.comparison import RATIOS, compare, lines_of
from suite.instructions import count
from suite.measuring import Bench
from suite.processes import choose_cores, stop_on_signals
from suite.samples import Samples

LATEST = Path(__file__).resolve().parent / "results" / "latest.json"
SHORT_STREAMS_S = 3.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def steps() -> list[plan.Load]:
    """The workloads of rows 1 to 3, the streams shortened."""
    wanted = [step for step in plan.STANDARD if step.name in {workload for workload, _ in RATIOS}]
    return [
        replace(step, chunks=round(SHORT_STREAMS_S * 1000 / step.interval_ms)) if step.chunks else step
        for step in wanted
    ]


def measure(bench: Bench, python: str, runs: int) -> Samples:
    """A B A B."""
    samples, session = Samples(), plan.SESSIONS[0]
    for _ in range(runs):
        for stack in (stacks.epp("epp", python), stacks.nginx(programs.ensure_nginx(say))):
            say(f"measuring {stack.name}")
            with bench.start(stack, session) as running:
                running.warm()
                for step in steps():
                    samples.add(step.name, stack.name, running.measure(step))
    return samples


def run(runs: int) -> None:
    committed = results.load(LATEST)
    if committed is None:
        raise tools.ToolError("there is no bench/results/latest.json to compare with: make bench")
    wanted = tuple(committed["versions"]["epp python"])
    python = programs.newest_python(say) or sys.executable
    if programs.python_version(python)[:2] != wanted[:2]:
        say(f"the committed figures are of CPython {wanted[0]}.{wanted[1]}, these of another")
    folder = Path(tempfile.mkdtemp(prefix="epp-bench-"))
    try:
        bench = Bench(tools.build(folder / "tools"), folder, choose_cores())
        os.sched_setaffinity(0, {bench.cores.tools})
        samples = measure(bench, python, runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say("counting instructions")
    counted = count(python)
    if counted is not None:
        samples.add("instructions", "epp", {"life": counted})
    print("\n".join(lines_of(compare(samples, Samples(committed["samples"])))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    stop_on_signals()
    try:
        run(options.runs)
    except (tools.ToolError, results.ResultsError) as error:
        say(f"bench-smoke: {error}")
        return 2
    except KeyboardInterrupt:
        say("bench-smoke: stopped")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
