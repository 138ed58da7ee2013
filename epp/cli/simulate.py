"""`epp simulate`: the router that will run, on a modelled fleet, in virtual time."""

import argparse
import os
import sys

from epp.simulate.progress import ProgressLine
from epp.simulate.reference import REFERENCES, run_reference
from epp.simulate.report import cells_as_json, cells_as_text

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  epp simulate --reference seed
      the published table of llm-d's guide "tiered prefix cache, CPU" beside ours, with each cell's error
  epp simulate --reference seed --seeds 3 --format json
  epp simulate --reference llm-d-5-40qps
      the newer table: rates of 5 to 40 requests a second

exit codes: 0 done; 2 an input cannot be used
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "simulate",
        allow_abbrev=False,
        help="run a modelled fleet behind the router",
        description="Runs the shipped scheduler, index and configuration in virtual time on modelled vLLM "
        "servers. Simulated figures are simulated: docs/simulation.md tells the model's error.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--reference", choices=sorted(REFERENCES), required=True, help="a published benchmark to reproduce"
    )
    parser.add_argument("--seeds", type=_positive, default=8, metavar="N", help="random seeds (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first of them (%(default)s)")
    parser.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="processes (one a core)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Print the result."""
    progress = ProgressLine(f"reference {arguments.reference}")
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    cells = run_reference(REFERENCES[arguments.reference], seeds, progress, jobs=arguments.jobs)
    progress.close()
    sys.stdout.write(cells_as_json(cells) if arguments.format == "json" else cells_as_text(cells))
    return 0
