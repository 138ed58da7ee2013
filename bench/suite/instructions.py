"""Instructions of one request's life in the core, counted by valgrind: the same on a busy machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .processes import environment
from .tools import ToolError

__all__ = ["count", "parse_count"]

PROGRAM = Path(__file__).resolve().parents[1] / "decision.py"
FEW, MANY = 8, 72  # the difference of two runs leaves out the start
LIMIT_S = 240.0


def count(python: str, endpoints: int = 64) -> float | None:
    """Instructions a request of 120 KB in front of so many endpoints; None without valgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    runs = [_start(valgrind, python, endpoints, repeats) for repeats in (FEW, MANY)]
    try:
        few, many = (_finish(run) for run in runs)
    finally:
        for run in runs:
            run.kill()
            run.wait()
    return (many - few) / (MANY - FEW)


def _start(valgrind: str, python: str, endpoints: int, repeats: int) -> "subprocess.Popen[str]":
    counting = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    program = [python, str(PROGRAM), "--endpoints", str(endpoints), "--repeat", str(repeats)]
    everywhere = os.cpu_count() or 1
    return subprocess.Popen(
        [*counting, *program],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "PYTHONHASHSEED": "0"},
        preexec_fn=lambda: os.sched_setaffinity(0, range(everywhere)),  # noqa: PLW1509  # no threads here
    )


def _finish(run: "subprocess.Popen[str]") -> int:
    _, said = run.communicate(timeout=LIMIT_S)
    if run.returncode:
        raise ToolError(f"valgrind failed with {run.returncode}: {said.strip()[-500:]}")
    return parse_count(said)


def parse_count(said: str) -> int:
    """The number of instructions in what cachegrind prints."""
    found = re.search(r"I +refs: +([\d,]+)", said)
    if not found:
        raise ToolError(f"valgrind counted nothing: {said.strip()[-500:]}")
    return int(found.group(1).replace(",", ""))
