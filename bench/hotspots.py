"""Where epp's time goes under one workload of the suite.

    python bench/hotspots.py 1kb [--seconds 4] [--python PATH] [--lines 45]
    python bench/hotspots.py 1kb --calls           every call counted and timed (cProfile), callers exact
    python bench/hotspots.py 1kb --syscalls        system calls counted (strace)

Workloads are those of the suite's standard session: 1kb, 120kb, sse512, rate200, … Without a flag py-spy
samples the running server (pip install py-spy): true shares, but uvloop's callbacks tear its stacks, so
"all", the share with a function anywhere on the stack, is too low for outer ones. --calls slows small ones.
"""

import argparse
import os
import pstats
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from suite import measuring, processes, stacks, tools
from suite.plan import SESSIONS, STANDARD, Load

STOP_S = 10.0
COUNTED = """\
import cProfile, os
profile = cProfile.Profile()
from epp.cli import main
profile.enable()
try:
    main()
finally:
    profile.disable()
    profile.dump_stats({target!r} + '.part')
    os.replace({target!r} + '.part', {target!r})
"""


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


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise tools.ToolError(f"{name} is not installed")
    return found


def watched(running: measuring.Running, step: Load, command: list[str], stop_after: float | None) -> str:
    """Attach a program to the stack while the workload is repeated; what it said on standard error."""
    watcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    while watcher.poll() is None:
        print(running.measure(step), file=sys.stderr)
        if stop_after is not None and time.monotonic() - began > stop_after:
            watcher.send_signal(signal.SIGINT)
            break
    _, said = watcher.communicate(timeout=STOP_S)
    return said


def sampled(running: measuring.Running, step: Load, folder: Path, options: argparse.Namespace) -> None:
    target = folder / "stacks.txt"
    command = [program("py-spy"), "record", "--pid", str(running.session), "--rate", "250", "--format", "raw"]
    command += ["--duration", str(int(options.seconds)), "--output", str(target)]
    said = watched(running, step, command, None)
    if not target.exists():
        raise tools.ToolError(f"py-spy: {said}")
    total, own, anywhere = shares(target.read_text().splitlines())
    for title, counts in (("self", own), ("all", anywhere)):
        print(f"{title:>7} of {total} samples")
        for name, count in counts.most_common(options.lines):
            print(f"{count / total:7.1%} {name}")


def syscalls(running: measuring.Running, step: Load, folder: Path, options: argparse.Namespace) -> None:
    target = folder / "syscalls.txt"
    command = [program("strace"), "-c", "-f", "-p", str(running.session), "-o", str(target)]
    watched(running, step, command, options.seconds)
    print(target.read_text())


def counted(running: measuring.Running, step: Load, folder: Path, options: argparse.Namespace) -> None:
    target, found = folder / "calls.out", running.measure(step)
    os.killpg(running.session, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while not target.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    print(f"{found['requests']:.0f} requests")
    calls = pstats.Stats(str(target))
    for order in ("cumulative", "tottime"):
        calls.sort_stats(order).print_stats(r"epp/|uvicorn|built-in|method", options.lines)


def counting(stack: stacks.Stack, folder: Path) -> stacks.Stack:
    """The same under cProfile."""
    code = COUNTED.format(target=str(folder / "calls.out"))

    def command(place: stacks.Place) -> list[str]:
        python, _, _, *arguments = stack.command(place)  # python -m epp …
        return [python, "-c", code, *arguments]

    return stacks.Stack(stack.name, "", command)


def run(options: argparse.Namespace, folder: Path) -> None:
    bench = measuring.Bench(tools.build(folder / "tools"), folder, processes.choose_cores())
    os.sched_setaffinity(0, {bench.cores.tools})
    (step,) = (step for step in STANDARD if step.name == options.workload)
    if not step.chunks:
        step = replace(step, seconds=options.seconds)
    stack = stacks.epp("epp", options.python)
    look = counted if options.calls else syscalls if options.syscalls else sampled
    with bench.start(counting(stack, folder) if options.calls else stack, SESSIONS[0]) as running:
        running.warm()
        look(running, step, folder, options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workload", choices=sorted(step.name for step in STANDARD))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--python", default=sys.executable, help="interpreter that runs epp")
    parser.add_argument("--lines", type=int, default=45, help="functions to show")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--calls", action="store_true", help="count and time every call")
    how.add_argument("--syscalls", action="store_true", help="count system calls")
    options = parser.parse_args()
    processes.stop_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="epp-bench-") as folder:
            run(options, Path(folder))
    except tools.ToolError as error:
        print(f"hotspots.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
