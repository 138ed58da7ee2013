"""Where epp's time goes under one workload of the suite: the functions that py-spy sees most.

    pip install py-spy
    python bench/hotspots.py 1kb [--seconds 4] [--python PATH] [--native] [--stacks FILE]

Workloads are those of the suite's standard session: 1kb, 120kb, sse512, rate200, … "self" is the share of
samples in the function itself, C functions it calls included; "all" the share with it anywhere on the stack.
--native tells C functions apart. --stacks keeps the samples as text, one stack a line, for a flame graph.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from suite import measuring, processes, stacks, tools
from suite.plan import SESSIONS, STANDARD, Load

ROWS = 45


def shares(lines: Iterable[str]) -> tuple[int, Counter[str], Counter[str]]:
    """Number of samples, and those of each function: itself, and anywhere on the stack."""
    own, anywhere, total = Counter[str](), Counter[str](), 0
    for line in lines:
        stack, _, count = line.strip().rpartition(" ")
        frames = [frame.rpartition(":")[0] or frame for frame in stack.split(";")]
        total += int(count)
        own[frames[-1]] += int(count)
        for frame in set(frames):
            anywhere[frame] += int(count)
    return total, own, anywhere


def sample(session: int, target: Path, seconds: float, *, native: bool) -> "subprocess.Popen[bytes]":
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        raise tools.ToolError("py-spy is not installed: pip install py-spy")
    command = [spy, "record", "--pid", str(session), "--duration", str(int(seconds)), "--rate", "500"]
    command += [
        "--nonblocking",
        "--format",
        "raw",
        "--output",
        str(target),
        *(["--native"] if native else []),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def profile(step: Load, options: argparse.Namespace, folder: Path) -> list[str]:
    """The samples of one workload, repeated while they are taken."""
    bench = measuring.Bench(tools.build(folder / "tools"), folder, processes.choose_cores())
    os.sched_setaffinity(0, {bench.cores.tools})
    stack = stacks.epp("epp", options.python)
    with bench.start(stack, SESSIONS[0]) as running:
        running.warm()
        target = folder / "stacks.txt"
        spy = sample(running.session, target, options.seconds, native=options.native)
        while spy.poll() is None:
            print(running.measure(step), file=sys.stderr)
        if spy.returncode:
            raise tools.ToolError(f"py-spy: {spy.stderr.read().decode()}")
    return target.read_text().splitlines()


def main() -> None:
    steps = {step.name: step for step in STANDARD}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workload", choices=sorted(steps))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--python", default=sys.executable, help="interpreter that runs epp")
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--stacks", type=Path)
    options = parser.parse_args()
    processes.stop_on_signals()
    step = steps[options.workload]
    if not step.chunks:
        step = replace(step, seconds=options.seconds)
    try:
        with tempfile.TemporaryDirectory() as folder:
            lines = profile(step, options, Path(folder))
    except tools.ToolError as error:
        sys.exit(f"hotspots.py: {error}")
    if options.stacks:
        options.stacks.write_text("\n".join(lines))
    total, own, anywhere = shares(lines)
    for title, counts in (("self", own), ("all", anywhere)):
        print(f"{title:>7} of {total} samples")
        for name, count in counts.most_common(ROWS):
            print(f"{count / total:7.1%} {name}")


if __name__ == "__main__":
    main()
