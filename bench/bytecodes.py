"""How many bytecodes and calls a request of the fast lane takes, by module or by function.

    python bench/bytecodes.py [--by module|function] [--only epp/proxy] [--top 40] [--clients 32]

The lane of bench/lane.py, watched by sys.monitoring (CPython 3.12 or newer). Where code is run once a
request and is cold each time, CPU time follows these numbers; they are nearly the same in every run, whatever
else the machine does.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import lane
import uvloop

ROOT = Path(__file__).resolve().parents[1]
WARM_REQUESTS = 1024
REQUESTS = 640
TURNS_AFTER = 8  # of the event loop, in which an answer's end is told and written down


@dataclass(slots=True)
class Counts:
    """By code object: bytecodes, entries, and calls of what is not written in Python."""

    bytecodes: Counter[CodeType] = field(default_factory=Counter)
    entries: Counter[CodeType] = field(default_factory=Counter)
    foreign: Counter[CodeType] = field(default_factory=Counter)


class Watch:
    """Counts while it is entered."""

    def __init__(self) -> None:
        self.counts = Counts()

    def __enter__(self) -> Counts:
        monitoring, events = sys.monitoring, sys.monitoring.events
        monitoring.use_tool_id(monitoring.PROFILER_ID, "bytecodes")
        callbacks = {
            events.INSTRUCTION: self._on_bytecode,
            events.PY_START: self._on_entry,
            events.PY_RESUME: self._on_entry,
            events.CALL: self._on_call,
        }
        for event, callback in callbacks.items():
            monitoring.register_callback(monitoring.PROFILER_ID, event, callback)
        monitoring.set_events(monitoring.PROFILER_ID, sum(callbacks))
        return self.counts

    def __exit__(self, *_error: object) -> None:
        sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
        sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)

    def _on_bytecode(self, code: CodeType, _offset: int) -> None:
        self.counts.bytecodes[code] += 1

    def _on_entry(self, code: CodeType, _offset: int) -> None:
        self.counts.entries[code] += 1

    def _on_call(self, code: CodeType, _offset: int, called: Any, _first: object) -> None:
        if not hasattr(called, "__code__"):
            self.counts.foreign[code] += 1


async def count(options: argparse.Namespace, log: str) -> Counts:
    """Serve some requests unseen, then some that are counted."""
    router = lane.Lane(log)
    await router.listener.refresh_date()
    clients = [router.client() for _ in range(options.clients)]
    bodies = lane.requests(options.bytes)

    await router.serve(clients, bodies, WARM_REQUESTS, TURNS_AFTER)
    with Watch() as counts:
        await router.serve(clients, bodies, REQUESTS, TURNS_AFTER)
    router.runtime.observers.stop()
    return counts


def place_of(code: CodeType, by: str) -> str:
    """The module, seen from the repository or from site-packages, and the function if it is wanted."""
    path = code.co_filename.removeprefix(f"{ROOT}/").rpartition("site-packages/")[2]
    return f"{path}:{code.co_qualname}" if by == "function" else path


def table(counts: Counts, options: argparse.Namespace) -> list[str]:
    """Lines with the dearest first; numbers are for one request."""
    totals: dict[str, Counter[str]] = {}
    for kind in ("bytecodes", "entries", "foreign"):
        for code, number in getattr(counts, kind).items():
            place = place_of(code, options.by)
            if options.only in place:
                totals.setdefault(place, Counter())[kind] += number
    lines = [_line("all" if not options.only else options.only, sum(totals.values(), Counter()))]
    dearest = sorted(totals.items(), key=lambda total: -total[1]["bytecodes"])
    return lines + [_line(place, total) for place, total in dearest[: options.top]]


def _line(place: str, total: Counter[str]) -> str:
    bytecodes, entries, foreign = (total[kind] / REQUESTS for kind in ("bytecodes", "entries", "foreign"))
    return f"{bytecodes:8,.0f} bytecodes {entries:6.1f} entered {foreign:6.1f} foreign calls  {place}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--by", choices=("module", "function"), default="module")
    parser.add_argument("--only", default="", metavar="PART", help="places whose name has this part")
    parser.add_argument("--top", type=int, default=40, help="lines that are shown (%(default)s)")
    parser.add_argument("--bytes", type=int, default=1000, help="size of a request's body (%(default)s)")
    parser.add_argument("--clients", type=int, default=32, help="requests under way together (%(default)s)")
    options = parser.parse_args()
    if sys.version_info < (3, 12):
        parser.error(f"needs CPython 3.12 or newer, this is {sys.version.split()[0]}")
    with tempfile.NamedTemporaryFile() as log:
        counts = uvloop.run(count(options, log.name))
    print("\n".join(table(counts, options)))


if __name__ == "__main__":
    main()
