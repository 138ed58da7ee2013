"""`make chaos`: two minutes of mischief against servers that are processes of their own."""

import argparse
import asyncio
import secrets
import sys

import uvloop

from tests.chaos.run import Plan, run


def main() -> int:
    """Prints the seed, the progress and the verdict; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of everything random")
    parser.add_argument("--seconds", type=float, default=120.0, help="of mischief (120)")
    parser.add_argument("--clients", type=int, default=16, help="requests in flight (16)")
    parser.add_argument("--lane", choices=("fast", "asgi"), default="fast")
    parser.add_argument("--in-process", action="store_true", help="servers in this process, as in make test")
    given = parser.parse_args()
    plan = Plan(
        given.seed, given.seconds, clients=given.clients, lane=given.lane, processes=not given.in_process
    )
    print(f"seed {plan.seed}, lane {plan.lane}, {plan.mischief_s:g} s", flush=True)
    report = uvloop.run(run(plan, lambda line: print(line, flush=True)))
    print("\n".join(report.lines()))
    return 1 if report.faults else 0


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    sys.exit(main())
