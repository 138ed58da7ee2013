"""`epp advise`: native offload, LMCache or none, from a simulation of the fleet and its traffic."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epp.errors import ConfigError, ConfigProblem
from epp.simulate.advice_page import as_html, as_json, as_markdown
from epp.simulate.advise import Advice, advise, collect, refusals, reuse_of
from epp.simulate.capacity import Given, capacity
from epp.simulate.experiment import Scenario, load_config_or_policy, run_scenarios
from epp.simulate.fleet import Fleet, Offload
from epp.simulate.inputs import (
    known_gpus,
    model_shape,
    override,
    read_fleet,
    read_workload,
    read_yaml,
    workload_of,
)
from epp.simulate.outcome import Outcome
from epp.simulate.progress import ProgressLine

__all__ = ["add_parser", "run"]

_BEST_POLICY = "ttft-cost"
_CHART_FACTORS = (0.5, 1.0, 2.0, 4.0)
_CHART_TIERS = (Offload.NATIVE, Offload.LMCACHE_SHARED)

EPILOG = """\
examples:
  epp advise --fleet examples/fleet.yaml --workload examples/shared-prefix.yaml
      every tier under the built-in configuration and under ttft-cost
  epp advise --fleet F --workload W --config plugins.yaml --seeds 3 --format json

The fleet's cpuBlocks are the host memory that a tier would get. exit codes: 0 done; 2 an input cannot be used
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "advise",
        allow_abbrev=False,
        help="native offload, LMCache or none",
        description="Simulates every tier under the current configuration and under routing by predicted "
        "cost, and tells on one page which to run, by what margin, and why not the others.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fleet", required=True, metavar="FILE", help="servers, as for epp simulate")
    parser.add_argument("--workload", required=True, metavar="FILE", help="requests, as for epp simulate")
    parser.add_argument("--config", default="default", metavar="NAME", help="the current one (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="random seeds (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    parser.add_argument(
        "--no-break-even", action="store_true", help="leave the chart out, which is half the work"
    )
    parser.add_argument("--format", choices=("markdown", "json", "html"), default="markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the page."""
    raw = read_yaml(Path(arguments.fleet), "--fleet")
    told = read_yaml(Path(arguments.workload), "--workload")
    load_config_or_policy(arguments.config)
    if arguments.seeds < 1 or arguments.jobs < 1:
        raise _fault("--seeds", "seeds and jobs must be at least 1")
    fleet, _ = read_fleet(raw)
    if not fleet.cpu_tokens:
        raise _fault("fleet.cpuBlocks", "is 0: say how many blocks of host memory a tier would get")
    reuse = reuse_of(collect(workload_of(read_workload(told), 1)), fleet)
    outcomes, chart_runs = _simulate(arguments, raw, told)
    base = outcomes[arguments.config, Offload.NONE]
    advice = advise(outcomes, reuse, refusals(reuse, fleet, _in_flight(base[0])), arguments.config)
    chart = {
        tier: [(reuse.ratio / factor, gain) for factor, gain in reversed(points)]
        for tier, points in chart_runs.items()
    }
    page = {"markdown": as_markdown, "json": as_json, "html": as_html}[arguments.format]
    sys.stdout.write(page(advice, chart, _settings(raw, fleet, advice)))
    return 0


def _fault(where: str, said: str) -> ConfigError:
    return ConfigError([ConfigProblem(where, said, "see epp advise --help")], "epp advise")


def _in_flight(outcome: Outcome) -> float:
    """Mean number of requests under way."""
    end = max((row.end_s for row in outcome.rows), default=0.0)
    return sum(row.e2e_s for row in outcome.rows) / end if end else 0.0


def _simulate(
    arguments: argparse.Namespace, raw: Mapping[str, Any], told: Mapping[str, Any]
) -> tuple[dict[tuple[str, Offload], Sequence[Outcome]], dict[Offload, list[tuple[float, float]]]]:
    """Outcomes by (policy, tier), and by tier what it gains by factor of the GPU tiers' size."""
    policies = _policies(arguments.config)
    scenarios = [
        Scenario(f"{policy} {offload}", override(raw, "offload", str(offload)), told, policy, seed)
        for policy in policies
        for offload in Offload
        for seed in range(1, arguments.seeds + 1)
    ]
    factors = () if arguments.no_break_even else _CHART_FACTORS
    for factor in factors:
        blocks = max(1, round(factor * int(raw.get("gpuBlocks", 9_271))))
        for offload in (Offload.NONE, *_CHART_TIERS):
            changed = override(override(raw, "offload", str(offload)), "gpuBlocks", blocks)
            scenarios.append(Scenario(f"chart {factor} {offload}", changed, told, arguments.config, 1))
    progress = ProgressLine("runs")
    found = run_scenarios(scenarios, progress, arguments.jobs)
    progress.close()
    outcomes: dict[tuple[str, Offload], Sequence[Outcome]] = {
        (policy, offload): found[f"{policy} {offload}"] for policy in policies for offload in Offload
    }
    chart = {tier: [(f, _gain(found, f, tier)) for f in factors] for tier in _CHART_TIERS if factors}
    return outcomes, chart


def _policies(current: str) -> tuple[str, ...]:
    """The current one, and routing by predicted cost where that is another."""
    if load_config_or_policy(current) == load_config_or_policy(_BEST_POLICY):
        return (current,)
    return tuple(dict.fromkeys((current, _BEST_POLICY)))


def _gain(found: Mapping[str, Sequence[Outcome]], factor: float, tier: Offload) -> float:
    (without,), (with_it,) = (found[f"chart {factor} {name}"] for name in (Offload.NONE, tier))
    before = sum(row.e2e_s for row in without.rows) / max(1, len(without.rows))
    after = sum(row.e2e_s for row in with_it.rows) / max(1, len(with_it.rows))
    return 1 - after / before if before else 0.0


def _router(policy: str) -> str:
    """How to start the router with a configuration, which may be shipped."""
    if policy == "default":
        return "router: no --config, which is the built-in default"
    return f"router: --config {'config/ttft-cost.yaml' if policy == _BEST_POLICY else policy}"


def _settings(raw: Mapping[str, Any], fleet: Fleet, advice: Advice) -> tuple[str, ...]:
    """What to write into the engines' flags and the router's configuration."""
    if advice.choice is Offload.NONE:
        return (_router(advice.policy), "engines: no offload")
    tp = int(raw.get("tp", 2))
    given = Given(tp=tp, gpu_blocks=fleet.gpu_tokens // 16, cpu_blocks=fleet.cpu_tokens // 16)
    found = capacity(
        model_shape(str(raw.get("model", "qwen3-32b"))), known_gpus()[raw.get("gpu", "h100")], given
    )
    wanted = "LMCache" if advice.choice is not Offload.NATIVE else "vLLM native"
    lines = [line for line in found.settings if "view" in line or line.startswith(wanted)]
    return (_router(advice.policy), *lines, *(f"warning: {w}" for w in found.warnings))
