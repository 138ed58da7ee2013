"""One run of a policy on a workload, and figures of several."""

import statistics
from dataclasses import dataclass, replace

from epp.scheduling.producers.latency import LearnedLatency
from epp.scheduling.scorers.ttft_cost import TtftCostScorer
from epp.simulate.experiment import load_config_or_policy
from epp.simulate.fleet import Fleet, Offload
from epp.simulate.outcome import Summary, summarise
from epp.simulate.runner import Simulation

from .workloads import fleet_of, requests_of

LADDER_STAGES = {1: "10", 2: "20", 3: "30", 4: "40"}  # by place; the first warms the caches


@dataclass(frozen=True)
class Belief:
    """What the scorer starts from, over what is true; `learns`: it may find out."""

    latency: float = 1.0
    load: float = 1.0
    learns: bool = True


@dataclass(frozen=True)
class Task:
    """One run. `noise` disturbs each step by so much, as a share of it."""

    policy: str
    workload: str
    seed: int
    noise: float = 0.0
    belief: Belief | None = None


@dataclass(frozen=True)
class Run:
    """What it came to; `stages` by rate for a ladder."""

    task: Task
    whole: Summary
    stages: dict[str, Summary]
    wall_s: float
    router_s: float


def policy_for(policy: str, fleet: Fleet) -> str:
    """Without a CPU tier, a CPU view would count on hits that cannot come."""
    return "ttft-cost-hbm" if policy == "ttft-cost" and fleet.offload is Offload.NONE else policy


class Fixed(LearnedLatency):
    """A profile that learns nothing."""

    def learn(self, work, seconds):
        pass


def run(task: Task) -> Run:
    fleet = replace(fleet_of(task.workload), step_noise=task.noise)
    config = load_config_or_policy(policy_for(task.policy, fleet))
    simulation = Simulation(fleet, config, requests_of(task.workload, task.seed), seed=task.seed)
    if task.belief is not None:
        _believe(simulation, fleet, task.belief)
    outcome = simulation.run()
    stages = {}
    if task.workload == "ladder":
        stages = {rate: summarise(outcome, stage=place) for place, rate in LADDER_STAGES.items()}
    return Run(task, summarise(outcome), stages, outcome.wall_s, outcome.router_s)


def _believe(simulation: Simulation, fleet: Fleet, belief: Belief) -> None:
    """Give every cost scorer of the router a start that is wrong."""
    profiles = simulation.router.core.state.scheduler.profiles.values()
    for scorer in (scorer for profile in profiles for scorer, _ in profile.scorers):
        if isinstance(scorer, TtftCostScorer):
            learned = scorer.learned(fleet.model)
            if not belief.learns:
                learned.latency = Fixed()
            fixed, token, load = learned.latency.coefficients
            learned.latency.coefficients[:] = fixed, token * belief.latency, load * belief.load


def figures(runs: list[Run]) -> dict[str, float]:
    """Means over seeds, with the spread of what is judged."""
    found = {
        name: statistics.fmean(value(run) for run in runs)
        for name, value in {
            "ttft_mean_s": lambda r: r.whole.ttft.mean,
            "ttft_p50_s": lambda r: r.whole.ttft.p50,
            "ttft_p90_s": lambda r: r.whole.ttft.p90,
            "ttft_p99_s": lambda r: r.whole.ttft.p99,
            "e2e_mean_s": lambda r: r.whole.e2e.mean,
            "tok_s": lambda r: r.whole.total_tok_s,
            "goodput": lambda r: r.whole.goodput,
        }.items()
    }
    for rate in runs[0].stages:
        found[f"ttft_mean_s at {rate}"] = statistics.fmean(run.stages[rate].ttft.mean for run in runs)
    for name, value in (("ttft_mean_s", lambda r: r.whole.ttft.mean), ("goodput", lambda r: r.whole.goodput)):
        values = [value(run) for run in runs]
        found[f"{name} spread"] = max(values) - min(values)
    return found
