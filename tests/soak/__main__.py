"""`make soak`: a million requests through a router, whose memory, index and decision time must stay as they are."""

import argparse
import sys

import uvloop

from tests.soak.run import Plan, run


def main() -> int:
    """Prints the progress and the verdict; 0 when everything stayed flat."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lane", choices=("fast", "asgi"), default="fast")
    given = parser.parse_args()
    print(f"{given.requests} requests, seed {given.seed}, lane {given.lane}", flush=True)
    plan = Plan(given.requests, given.seed, lane=given.lane)
    report = uvloop.run(run(plan, lambda line: print(line, flush=True)))
    print("\n".join(report.lines()))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
