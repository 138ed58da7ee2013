"""Native offload, LMCache or none: decided from simulations of the fleet and its traffic."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from epp.simulate.fleet import Fleet, Offload
from epp.simulate.outcome import Outcome, summarise
from epp.simulate.workload import SimRequest, Workload

__all__ = ["Advice", "Option", "Refusal", "Reuse", "advise", "collect", "refusals", "reuse_of"]

_MARGIN: Final = 0.02  # what a tier must gain to be worth running
_LITTLE_REUSE: Final = 0.05
_SHORT_PROMPT_TOKENS: Final = 1_000
_FEW_REQUESTS: Final = 100


@dataclass(frozen=True, slots=True)
class Reuse:
    """What the traffic has to gain from caches.

    Attributes:
        requests, mean_prompt_tokens: of the workload.
        share: prompt tokens that an infinite cache would hit.
        tokens: distinct prompt tokens that are wanted more than once.
        ratio: those over the KV tokens of all GPU tiers together.
    """

    requests: int
    mean_prompt_tokens: float
    share: float
    tokens: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Option:
    """One tier under one policy; `gain` is of the mean end-to-end time against no tier, by seed."""

    policy: str
    offload: Offload
    ttft_mean_s: float
    ttft_p90_s: float
    e2e_mean_s: float
    throughput_tok_s: float
    gpu_hit_share: float
    cpu_hit_share: float
    gains: tuple[float, ...] = ()

    @property
    def gain(self) -> float:
        """Mean over the seeds; below zero the tier costs more than it gains."""
        return statistics.fmean(self.gains) if self.gains else 0.0

    @property
    def sure(self) -> bool:
        """Every seed says the same of the margin."""
        return len({gain >= _MARGIN for gain in self.gains}) <= 1 and len(self.gains) > 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Tiers that are out of the question, and the number that says so."""

    offloads: tuple[Offload, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    """The page's content.

    `choice` is for `policy`, the better of those tried; `margin` is what it gains of the mean end-to-end
    time: against no tier, or, where that is the choice, against the best tier.
    """

    choice: Offload
    policy: str
    margin: float
    confidence: str
    reuse: Reuse
    options: tuple[Option, ...]
    refusals: tuple[Refusal, ...]
    current_choice: Offload
    current_policy: str


def collect(workload: Workload, limit: int = 200_000) -> list[SimRequest]:
    """All requests of a workload, in the order in which they would come if each took no time."""
    found: list[SimRequest] = []
    waiting = [request for _, request in workload.initial()]
    while waiting and len(found) < limit:
        request = waiting.pop(0)
        found.append(request)
        waiting += [following for _, following in workload.next_after(request, 0.0)]
    return found


def reuse_of(requests: Iterable[SimRequest], fleet: Fleet) -> Reuse:
    """How much of the prompts comes again, segment by segment."""
    seen: dict[int, int] = {}
    again: dict[int, int] = {}
    count = prompt = hits = 0
    for request in requests:
        count += 1
        prompt += request.prompt_tokens
        start = 0
        answer = () if request.answer is None else (request.answer,)
        for segment in request.segments:
            if segment.identity in seen:
                hits += segment.end - start
                again[segment.identity] = segment.end - start
            start = segment.end
        for segment in (*request.segments, *answer):
            seen[segment.identity] = 1
    tokens = sum(again.values())
    return Reuse(
        requests=count,
        mean_prompt_tokens=prompt / count if count else 0.0,
        share=hits / prompt if prompt else 0.0,
        tokens=tokens,
        ratio=tokens / (fleet.gpu_tokens * fleet.engines),
    )


def refusals(reuse: Reuse, fleet: Fleet, most_in_flight: float) -> list[Refusal]:
    """What needs no simulation to be ruled out."""
    tiers = (Offload.NATIVE, Offload.LMCACHE_LOCAL, Offload.LMCACHE_SHARED)
    found = []
    if reuse.share < _LITTLE_REUSE:
        reason = (
            f"{reuse.share:.1%} of the prompt tokens come again; below {_LITTLE_REUSE:.0%} no tier can pay"
        )
        found.append(Refusal(tiers, reason))
    if reuse.mean_prompt_tokens < _SHORT_PROMPT_TOKENS and most_in_flight < _FEW_REQUESTS:
        reason = (
            f"prompts of {reuse.mean_prompt_tokens:.0f} tokens in the mean with {most_in_flight:.0f} "
            f"requests in flight: below {_SHORT_PROMPT_TOKENS} and {_FEW_REQUESTS} the work saved is less "
            "than what each step costs"
        )
        found.append(Refusal(tiers, reason))
    if fleet.engines < 2:
        reason = f"{fleet.engines} engine: LMCache shares between engines, and native offload is simpler"
        found.append(Refusal((Offload.LMCACHE_LOCAL, Offload.LMCACHE_SHARED), reason))
    return found


def option_of(policy: str, offload: Offload, outcomes: Sequence[Outcome], base: Sequence[Outcome]) -> Option:
    """One tier's figures, with its gains seed by seed."""
    each = [summarise(outcome) for outcome in outcomes]
    without = [summarise(outcome).e2e.mean for outcome in base]
    return Option(
        policy=policy,
        offload=offload,
        ttft_mean_s=statistics.fmean(s.ttft.mean for s in each),
        ttft_p90_s=statistics.fmean(s.ttft.p90 for s in each),
        e2e_mean_s=statistics.fmean(s.e2e.mean for s in each),
        throughput_tok_s=statistics.fmean(s.total_tok_s for s in each),
        gpu_hit_share=statistics.fmean(s.gpu_hit_share for s in each),
        cpu_hit_share=statistics.fmean(s.cpu_hit_share for s in each),
        gains=tuple(1 - s.e2e.mean / before for s, before in zip(each, without, strict=True)),
    )


def advise(
    outcomes: Mapping[tuple[str, Offload], Sequence[Outcome]],
    reuse: Reuse,
    refused: Sequence[Refusal],
    current: str,
) -> Advice:
    """The choice from runs by (policy, tier); every policy was run with `Offload.NONE`, too."""
    options = tuple(
        option_of(policy, offload, found, outcomes[policy, Offload.NONE])
        for (policy, offload), found in outcomes.items()
    )
    barred = {offload for refusal in refused for offload in refusal.offloads}
    chosen = {policy: _choose(options, policy, barred) for policy, _ in outcomes}
    best = min(chosen.values(), key=lambda option: option.e2e_mean_s)
    others = [o.gain for o in options if o.policy == best.policy and o.offload is not Offload.NONE]
    return Advice(
        choice=best.offload,
        policy=best.policy,
        margin=best.gain if best.offload is not Offload.NONE else -max(others, default=0.0),
        confidence=_confidence(options, best.policy),
        reuse=reuse,
        options=options,
        refusals=tuple(refused),
        current_choice=chosen[current].offload,
        current_policy=current,
    )


def _choose(options: Iterable[Option], policy: str, barred: set[Offload]) -> Option:
    """The tier that gains most, if that is worth it; the simpler one where they are alike."""
    mine = {option.offload: option for option in options if option.policy == policy}
    best = mine[Offload.NONE]
    for offload in (Offload.NATIVE, Offload.LMCACHE_LOCAL, Offload.LMCACHE_SHARED):
        option = mine.get(offload)
        if option is not None and offload not in barred and option.gain >= best.gain + _MARGIN:
            best = option
    return best


def _confidence(options: Iterable[Option], policy: str) -> str:
    mine = [o for o in options if o.policy == policy and o.offload is not Offload.NONE]
    if any(len(option.gains) < 2 for option in mine):
        return "unknown: one seed alone; use --seeds 3 or more"
    unsure = [str(option.offload) for option in mine if not option.sure]
    return f"low: seeds disagree on {', '.join(unsure)}" if unsure else "high: all seeds agree"
