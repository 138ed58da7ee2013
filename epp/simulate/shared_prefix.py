"""inference-perf's shared-prefix data: groups of prompts, each group with a system prompt of its own.

As that tool does it, traps included: the list of groups x prompts is built once, shuffled and read in order,
over again where more requests are wanted, and from its start in every stage of a ladder; prompts come out
longer than configured, because random tokens are decoded and encoded again.
"""

import random
from dataclasses import dataclass

from epp.simulate.prompts import Segment, identity
from epp.simulate.workload import ClosedLoop, SimRequest, Staged

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


def ladder(data: SharedPrefix, stages: tuple[Stage, ...], seed: int) -> Staged:
    """Poisson stages, each begun when the last has drained; each reads the list from its start."""
    generator = random.Random(seed)
    prompts = _prompts(data, generator)
    made: list[list[tuple[float, SimRequest]]] = []
    count = 0
    for number, stage in enumerate(stages):
        arrivals: list[tuple[float, SimRequest]] = []
        now = generator.expovariate(stage.rate)
        while now < stage.duration_s or not arrivals:
            segments = prompts[len(arrivals) % len(prompts)]
            arrivals.append((now, SimRequest(count, segments, data.output_len, data.output_len, number)))
            count += 1
            now += generator.expovariate(stage.rate)
        made.append(arrivals)
    return Staged(made, [stage.interval_s for stage in stages])
