"""Runs of one fleet and workload: several policies, several seeds, side by side."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epp.config import EffectiveConfig, load_any_config
from epp.errors import ConfigError, ConfigProblem
from epp.simulate.inputs import read_fleet, read_workload, workload_of
from epp.simulate.outcome import Outcome, Slo, Summary, summarise
from epp.simulate.policies import load_policy, policy_names
from epp.simulate.processes import in_processes
from epp.simulate.runner import simulate

__all__ = ["Difference", "Scenario", "compare", "load_config_or_policy", "run_scenarios", "summary_of"]

_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run to make: name, fleet and workload as their files say, a configuration's name or path, seed."""

    name: str
    fleet: Mapping[str, Any]
    workload: Mapping[str, Any]
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Difference:
    """B against A in one metric: relative change, and the interval that holds it with 95 % confidence."""

    metric: str
    a: float
    b: float
    change: float
    low: float
    high: float


def load_config_or_policy(name: str) -> EffectiveConfig:
    """A shipped policy by its name, or an EndpointPickerConfig by its path.

    Raises:
        ConfigError: neither.
    """
    if name in policy_names():
        return load_policy(name)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"name a file, or one of: {', '.join(policy_names())}"
        raise ConfigError(
            [ConfigProblem("--config", f"{name} cannot be read: {_why(error)}", remedy)], "simulation"
        ) from None
    return load_any_config(text, name)[1]


def _why(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _run(scenario: Scenario) -> Outcome:
    fleet, events = read_fleet(scenario.fleet)
    workload = workload_of(read_workload(scenario.workload), scenario.seed)
    config = load_config_or_policy(scenario.policy)
    return simulate(fleet, config, workload, seed=scenario.seed, events=events)


def run_scenarios(
    scenarios: Sequence[Scenario], progress: Callable[[int, int], None], jobs: int
) -> dict[str, list[Outcome]]:
    """Outcomes by name, one a seed, in the order of `scenarios`."""
    found: dict[str, list[Outcome]] = {}
    runs = zip(scenarios, in_processes(_run, scenarios, jobs), strict=True)
    for done, (scenario, outcome) in enumerate(runs, 1):
        found.setdefault(scenario.name, []).append(outcome)
        progress(done, len(scenarios))
    return found


def summary_of(outcomes: Sequence[Outcome], slo: Slo) -> Summary:
    """Figures of several seeds together: shares and percentiles over all requests, rates as means."""
    joined = Outcome(output_counted=outcomes[0].output_counted)
    for outcome in outcomes:
        joined.rows += outcome.rows
        joined.rejected += outcome.rejected
        joined.failed += outcome.failed
    whole = summarise(joined, slo)
    each = [summarise(outcome, slo) for outcome in outcomes]
    fields = {name: getattr(whole, name) for name in Summary.__dataclass_fields__}
    for name in ("duration_s", "input_tok_s", "output_tok_s", "busy_share"):
        fields[name] = statistics.fmean(getattr(summary, name) for summary in each)
    return Summary(**fields)


_COMPARED: Mapping[str, Callable[[Summary], float]] = {
    "ttft_mean_s": lambda s: s.ttft.mean,
    "ttft_p90_s": lambda s: s.ttft.p90,
    "ttft_p99_s": lambda s: s.ttft.p99,
    "e2e_mean_s": lambda s: s.e2e.mean,
    "throughput_tok_s": lambda s: s.total_tok_s,
    "goodput": lambda s: s.goodput,
}


def compare(a: Sequence[Outcome], b: Sequence[Outcome], slo: Slo, seed: int = 0) -> list[Difference]:
    """B against A, seed by seed (the same workload), with bootstrap intervals over the seeds."""
    pairs = [(summarise(one, slo), summarise(other, slo)) for one, other in zip(a, b, strict=True)]
    generator = random.Random(seed)
    return [_difference(metric, value, pairs, generator) for metric, value in _COMPARED.items()]


def _difference(
    metric: str,
    value: Callable[[Summary], float],
    pairs: Sequence[tuple[Summary, Summary]],
    generator: random.Random,
) -> Difference:
    numbers = [(value(one), value(other)) for one, other in pairs]
    changes = sorted(_change([generator.choice(numbers) for _ in numbers]) for _ in range(_RESAMPLES))
    return Difference(
        metric,
        statistics.fmean(one for one, _ in numbers),
        statistics.fmean(other for _, other in numbers),
        _change(numbers),
        changes[int(0.025 * _RESAMPLES)],
        changes[int(0.975 * _RESAMPLES)],
    )


def _change(numbers: Sequence[tuple[float, float]]) -> float:
    before = sum(one for one, _ in numbers)
    return (sum(other for _, other in numbers) - before) / before if before else 0.0
