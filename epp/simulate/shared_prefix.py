"""inference-perf's shared-prefix data: groups of prompts, each group with a system prompt of its own.

As that tool does it, traps included: the list of groups x prompts is built once, shuffled and read in order,
over again where more requests are wanted, and from its start in every stage of a ladder; prompts come out
longer than configured, because random tokens are decoded and encoded again.
"""

import random
from dataclasses import dataclass

from epp.simulate.prompts import Segment, identity
from epp.simulate.workload import ClosedLoop, OpenLoop, SimRequest

__all__ = ["SharedPrefix", "Stage", "closed_loop", "ladder"]


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Parameters under inference-perf's names; `inflation` is real prompt tokens over configured ones."""

    num_groups: int
    num_prompts_per_group: int
    system_prompt_len: int
    question_len: int
    output_len: int
    inflation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("num_groups", "num_prompts_per_group", "question_len", "output_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.system_prompt_len < 0:
            raise ValueError(f"system_prompt_len must not be negative, got {self.system_prompt_len}")
        if self.inflation <= 0:
            raise ValueError(f"inflation must be positive, got {self.inflation}")


@dataclass(frozen=True, slots=True)
class Stage:
    """Requests of a Poisson process: `rate` a second for `duration_s`, then a pause of `interval_s`."""

    rate: float
    duration_s: float
    interval_s: float = 0.0


def _prompts(data: SharedPrefix, generator: random.Random) -> list[tuple[Segment, ...]]:
    """The shuffled list."""
    system = round(data.system_prompt_len * data.inflation)
    whole = system + max(1, round(data.question_len * data.inflation))
    prompts: list[tuple[Segment, ...]] = []
    for group in range(data.num_groups):
        head = (Segment(identity("system", group), system),) if system else ()
        prompts += [
            (*head, Segment(identity("question", group, number), whole))
            for number in range(data.num_prompts_per_group)
        ]
    generator.shuffle(prompts)
    return prompts


def closed_loop(
    data: SharedPrefix, *, requests: int, concurrency: int, seed: int, gap_s: float = 0.002
) -> ClosedLoop:
    """`concurrency` clients that send `requests` in all."""
    prompts = _prompts(data, random.Random(seed))
    made = [
        SimRequest(number, prompts[number % len(prompts)], data.output_len, data.output_len)
        for number in range(requests)
    ]
    return ClosedLoop(made, concurrency, gap_s)


def ladder(data: SharedPrefix, stages: tuple[Stage, ...], seed: int) -> OpenLoop:
    """Poisson stages one after another; each reads the list from its start."""
    generator = random.Random(seed)
    prompts = _prompts(data, generator)
    arrivals: list[tuple[float, SimRequest]] = []
    start = 0.0
    for number, stage in enumerate(stages):
        now = start + generator.expovariate(stage.rate)
        first = len(arrivals)
        while now < start + stage.duration_s:
            segments = prompts[(len(arrivals) - first) % len(prompts)]
            request = SimRequest(len(arrivals), segments, data.output_len, data.output_len, number)
            arrivals.append((now, request))
            now += generator.expovariate(stage.rate)
        start += stage.duration_s + stage.interval_s
    return OpenLoop(arrivals)
