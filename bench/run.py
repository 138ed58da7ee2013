"""Measure epp beside nginx and other routers, on this machine, in one run.

    python bench/run.py                          everything: 5 paired runs, about 20 minutes
    python bench/run.py --only 1,3 --runs 2      rows 1 and 3, twice; the other rows keep their last figures
    python bench/run.py --without smg            leave a router out
    python bench/run.py --list                   rows, workloads and estimated times

It builds the model servers and the load generator (C), installs nginx and the other routers where they are
not, and writes bench/results/latest.json, .md and .svg. docs/performance.md says how to read them.
"""

import argparse
import datetime as dt
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from suite import machine, plan, programs, results, stacks, svg, table, tools
from suite.campaign import Campaign, Contest
from suite.measuring import Bench
from suite.processes import choose_cores, stop_on_signals
from suite.samples import Samples

FOLDER = Path(__file__).resolve().parent
LATEST = FOLDER / "results" / "latest.json"
MODES = ("cache_aware", "round_robin")
GROWTH_PEERS = ("sglang-router cache_aware", "smg cache_aware")
LEAST_PEERS = 2


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog=__doc__.partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="ROWS", help=f"rows to measure, of {','.join(plan.ROWS)}")
    parser.add_argument("--runs", type=int, default=5, help="paired runs (%(default)s)")
    parser.add_argument(
        "--without", action="append", default=[], choices=sorted(programs.PEERS), metavar="PEER"
    )
    parser.add_argument(
        "--python", help="interpreter with epp's dependencies for the main figures (the newest)"
    )
    parser.add_argument("--output", type=Path, default=LATEST, help="the file of results (%(default)s)")
    parser.add_argument("--list", action="store_true", help="show what would be run")
    options = parser.parse_args(arguments)
    try:
        options.rows = plan.rows_of(options.only)
    except ValueError as error:
        parser.error(str(error))
    if options.runs < 1:
        parser.error("--runs: at least 1")
    return options


def contest_of(options: argparse.Namespace) -> Contest:
    """Everything that takes part, in the order in which it is run; what cannot be had is skipped."""
    nginx = programs.ensure_nginx(say)
    main = options.python or programs.newest_python(say) or sys.executable
    version = programs.python_version(main)
    if not version:
        raise tools.ToolError(f"--python {main} does not run")
    chosen = [stacks.direct(), stacks.epp("epp", main), stacks.nginx(nginx)]
    own = programs.python_version(sys.executable)
    if own[:2] != version[:2]:
        chosen.append(stacks.epp(f"epp-{own[0]}.{own[1]}", sys.executable))
    skipped = dict.fromkeys(options.without, "left out by --without")
    for name in programs.PEERS:
        if name in skipped:
            continue
        try:
            commands = programs.ensure_peer(name, say)
        except tools.ToolError as reason:
            skipped[name] = str(reason)
            continue
        chosen += [stacks.peer(name, mode, commands) for mode in MODES]
    for name, reason in skipped.items():
        say(f"without {name}: {reason}")
    if len(programs.PEERS) - len(skipped) < LEAST_PEERS:
        raise tools.ToolError(f"at least {LEAST_PEERS} other routers are needed: {skipped}")
    return Contest(tuple(chosen), main, skipped, GROWTH_PEERS)


def facts_of(contest: Contest, options: argparse.Namespace) -> dict:
    """What stands beside the figures."""
    peers = {stack.name: stack.mode for stack in contest.stacks if stack.is_peer}
    return {
        "measured": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine.describe(),
        "versions": {
            "epp python": list(programs.python_version(contest.python)),
            "suite python": list(programs.python_version(sys.executable)),
            "nginx": machine.nginx_version(programs.ensure_nginx(say)),
            "peers": {name: programs.PEERS[name] for name in programs.PEERS if name not in contest.skipped},
            "libraries": machine.versions_of_libraries(),
        },
        "settings": {"runs": options.runs, "configuration": "config/tiered-prefix-cpu.yaml"},
        "peers": peers,
        "skipped": contest.skipped,
    }


def write(path: Path, found: dict) -> None:
    results.save(path, found)
    path.with_suffix(".md").write_text(table.markdown(found))
    path.with_suffix(".svg").write_text(svg.picture(Samples(found["samples"])))


def run(options: argparse.Namespace) -> int:
    older = results.load(options.output)
    contest = contest_of(options)
    folder = Path(tempfile.mkdtemp(prefix="epp-bench-"))
    try:
        bench = Bench(tools.build(folder / "tools"), folder, choose_cores())
        os.sched_setaffinity(0, {bench.cores.tools})
        campaign = Campaign(bench, contest, options.rows, options.runs, say)
        samples = campaign.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = results.merge(older, results.assemble(facts_of(contest, options), samples))
    write(options.output, found)
    print(table.markdown(found))
    say(f"written to {options.output.name}, .md and .svg beside it")
    return 1 if campaign.broken else 0


def show_plan(options: argparse.Namespace) -> int:
    for session in plan.sessions_for(options.rows, 0, options.runs):
        print(f"{session.name}: {session.endpoints} servers, rows {', '.join(sorted(session.rows))}")
        for step in session.steps:
            print(f"    {step.name}: {step.estimate_s:.1f} s")
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    stop_on_signals()
    began = time.monotonic()
    try:
        return show_plan(options) if options.list else run(options)
    except (tools.ToolError, results.ResultsError) as error:
        say(f"bench: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"bench: stopped after {time.monotonic() - began:.0f} s; nothing was written")
        return 130


if __name__ == "__main__":
    sys.exit(main())
