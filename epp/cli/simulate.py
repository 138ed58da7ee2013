"""`epp simulate`: the router that will run, on a modelled fleet, in virtual time."""

import argparse
import csv
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import yaml

from epp.cli.numbers import above_zero
from epp.errors import ConfigError, ConfigProblem
from epp.simulate.decisions import DecisionLog
from epp.simulate.experiment import Scenario, compare, load_config_or_policy, run_scenarios, summary_of
from epp.simulate.html import page
from epp.simulate.inputs import override, read_fleet, read_workload, read_yaml, workload_of
from epp.simulate.outcome import Outcome, RequestRow, Slo
from epp.simulate.progress import ProgressLine
from epp.simulate.reference import REFERENCES, run_reference
from epp.simulate.replayed import replay_file, replayed_as_json, replayed_as_text
from epp.simulate.report import (
    cells_as_json,
    cells_as_text,
    differences_as_text,
    regret_as_text,
    summaries_as_json,
    summaries_as_text,
)
from epp.simulate.runner import simulate

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  epp simulate --reference seed
      the published table of llm-d's guide "tiered prefix cache, CPU" beside ours, with each cell's error
  epp simulate --fleet examples/fleet.yaml --workload examples/shared-prefix.yaml --config ttft-cost
      what this fleet does with this traffic behind this router
  epp simulate --fleet F --workload W --compare default ttft-cost --seeds 5
      two configurations on the same requests, with intervals
  epp simulate --fleet F --workload W --sweep fleet.cpuBlocks=0,41000 --sweep workload.speed=1,1.4
      every combination
  epp simulate --replay run.rec
      what a router decided, decided again: says whether every pick and every score came out equal

--config and --compare take the path of an EndpointPickerConfig, or the name of a shipped policy.
exit codes: 0 done; 1 a replay decided otherwise, or its recording is not whole; 2 an input cannot be used
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
    what = parser.add_argument_group("what to run")
    what.add_argument("--reference", choices=sorted(REFERENCES), help="a published benchmark to reproduce")
    what.add_argument("--fleet", metavar="FILE", help="servers: model, GPU, blocks, offload, failures")
    what.add_argument("--workload", metavar="FILE", help="requests: shared-prefix, conversations or trace")
    what.add_argument("--config", metavar="NAME", help="configuration (default; that of a recording)")
    what.add_argument("--replay", metavar="FILE", help="a recording of epp serve --record to decide again")
    what.add_argument("--compare", nargs=2, metavar=("A", "B"), help="two configurations in place of one")
    what.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="KEY=V,V",
        help="values of fleet.KEY, workload.KEY or config, all combinations; may be repeated",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--seeds", type=_positive, metavar="N", help="random seeds (8 for a reference, else 1)")
    how.add_argument("--seed", type=int, default=1, help="the first of them (%(default)s)")
    how.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="processes")
    how.add_argument("--slo-ttft", type=above_zero, default=2.0, metavar="S", help="of goodput (%(default)s)")
    how.add_argument("--slo-itl", type=above_zero, default=0.05, metavar="S", help="of goodput (%(default)s)")
    out = parser.add_argument_group("output; the result goes to stdout")
    out.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    out.add_argument("--csv", metavar="FILE", help="a line for each request of the first seed")
    out.add_argument("--decisions", metavar="FILE", help="a JSON line for each decision of the first seed")
    out.add_argument("--html", metavar="FILE", help="a page with plots")
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Print the result."""
    if arguments.reference:
        return _reference(arguments)
    if arguments.replay:
        return _replay(arguments)
    if not (arguments.fleet and arguments.workload):
        raise _fault("--fleet", "give --reference, --replay, or both --fleet and --workload")
    return _experiment(arguments)


def _fault(where: str, said: str) -> ConfigError:
    return ConfigError([ConfigProblem(where, said, "see epp simulate --help")], "epp simulate")


def _reference(arguments: argparse.Namespace) -> int:
    progress = ProgressLine(f"reference {arguments.reference}")
    seeds = range(arguments.seed, arguments.seed + (arguments.seeds or 8))
    cells = run_reference(REFERENCES[arguments.reference], seeds, progress, jobs=arguments.jobs)
    progress.close()
    sys.stdout.write(cells_as_json(cells) if arguments.format == "json" else cells_as_text(cells))
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    others = ("fleet", "workload", "compare", "sweep", "csv", "html")
    given = [f"--{name}" for name in others if getattr(arguments, name)]
    if given:
        said = f"goes with --config, --decisions and --format alone, not with {', '.join(given)}"
        raise _fault("--replay", said)
    with ExitStack() as stack:
        observe = None
        if arguments.decisions:
            observe = DecisionLog(stack.enter_context(_written(arguments.decisions)).write).observe
        config = load_config_or_policy(arguments.config) if arguments.config else None
        progress = ProgressLine("bytes")
        told = replay_file(Path(arguments.replay), config, observe, progress)
        progress.close()
    sys.stdout.write(replayed_as_json(told) if arguments.format == "json" else replayed_as_text(told))
    return 1 if told.different or not told.complete else 0


def _experiment(arguments: argparse.Namespace) -> int:
    scenarios = _scenarios(arguments)
    _check(scenarios)
    progress = ProgressLine("runs")
    outcomes = run_scenarios(scenarios, progress, arguments.jobs)
    progress.close()
    slo = Slo(arguments.slo_ttft, arguments.slo_itl)
    _write_files(arguments, scenarios[0], outcomes, slo)
    summaries = {name: summary_of(found, slo) for name, found in outcomes.items()}
    if arguments.compare and len(outcomes) == 2:
        one, other = outcomes.values()
        differences = compare(one, other, slo)
        if arguments.format == "json":
            shown = json.loads(summaries_as_json(summaries)) | {"compare": [asdict(d) for d in differences]}
            sys.stdout.write(json.dumps(shown, indent=2) + "\n")
            return 0
        sys.stdout.write(summaries_as_text(summaries) + "\n" + differences_as_text(differences))
        return 0
    sys.stdout.write(
        summaries_as_json(summaries) if arguments.format == "json" else summaries_as_text(summaries)
    )
    return 0


def _scenarios(arguments: argparse.Namespace) -> list[Scenario]:
    """Every configuration, combination and seed, in this order."""
    fleet = read_yaml(Path(arguments.fleet), "--fleet")
    workload = read_yaml(Path(arguments.workload), "--workload")
    policies = list(dict.fromkeys(arguments.compare or [arguments.config or "default"]))
    found = []
    for policy, changes in itertools.product(policies, _combinations(arguments.sweep)):
        raw = {"fleet": fleet, "workload": workload, "config": policy}
        for key, value in changes:
            raw = override(raw, key, value)
        words = [str(raw["config"]), *(f"{key}={value}" for key, value in changes if key != "config")]
        found += [
            Scenario(" ".join(words), raw["fleet"], raw["workload"], str(raw["config"]), seed)
            for seed in range(arguments.seed, arguments.seed + (arguments.seeds or 1))
        ]
    return found


def _combinations(sweeps: Sequence[str]) -> Iterator[tuple[tuple[str, Any], ...]]:
    axes = []
    for sweep in sweeps:
        key, equals, values = sweep.partition("=")
        if not equals or key.split(".")[0] not in ("fleet", "workload", "config"):
            raise _fault("--sweep", f"{sweep!r} is not fleet.KEY=V,V or workload.KEY=V,V or config=V,V")
        axes.append([(key, yaml.safe_load(value)) for value in values.split(",")])
    return itertools.product(*axes)


def _check(scenarios: Sequence[Scenario]) -> None:
    """Every input, before the first run."""
    for scenario in scenarios:
        read_fleet(scenario.fleet)
        told = read_workload(scenario.workload)
        load_config_or_policy(scenario.policy)
    note = getattr(workload_of(told, scenarios[0].seed), "note", "")
    if note:
        print(f"epp: note: {note}", file=sys.stderr)


def _write_files(
    arguments: argparse.Namespace, first: Scenario, outcomes: dict[str, list[Outcome]], slo: Slo
) -> None:
    if arguments.csv:
        _write(arguments.csv, lambda file: _write_rows(file, outcomes))
    if arguments.html:
        _write(arguments.html, lambda file: file.write(page(outcomes, slo)))
    if arguments.decisions:
        _write(arguments.decisions, lambda file: _write_decisions(file, first))


def _write(path: str, write: Callable[[TextIO], Any]) -> None:
    with _written(path) as file:
        write(file)


@contextmanager
def _written(path: str) -> Iterator[TextIO]:
    """A file to write to, whose faults are told as those of an input."""
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise _fault("output", f"{path}: {error.strerror or error}") from None


def _write_rows(file: TextIO, outcomes: dict[str, list[Outcome]]) -> None:
    names = list(RequestRow.__struct_fields__)
    lines = csv.writer(file)
    lines.writerow(["run", *names, "ttft_s", "e2e_s", "itl_s"])
    for run_name, found in outcomes.items():
        for row in found[0].rows:
            values = [getattr(row, name) for name in names]
            lines.writerow([run_name, *values, f"{row.ttft_s:.6f}", f"{row.e2e_s:.6f}", f"{row.itl_s:.6f}"])


def _write_decisions(file: TextIO, scenario: Scenario) -> None:
    """The first run once more, told by its observer; what its choices cost goes to stderr."""
    log = DecisionLog(file.write)
    fleet, events = read_fleet(scenario.fleet)
    workload = workload_of(read_workload(scenario.workload), scenario.seed)
    config = load_config_or_policy(scenario.policy)
    simulate(
        fleet, config, workload,
        seed=scenario.seed, events=events, observer=log.observe, forecasts=log.forecast,
    )  # fmt: skip
    sys.stderr.write(regret_as_text(log.regret))
