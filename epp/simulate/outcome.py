"""What a simulation yields: one row a request, and the figures that are made of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

__all__ = ["Outcome", "RequestRow", "Slo", "Spread", "Summary", "percentile", "summarise"]


class RequestRow(msgspec.Struct, frozen=True):
    """One request that ended. Times are virtual seconds."""

    number: int
    stage: int
    endpoint: str
    arrival_s: float
    first_token_s: float
    end_s: float
    prompt_tokens: int
    output_tokens: int
    gpu_hit_tokens: int
    cpu_hit_tokens: int
    predicted_gpu_tokens: int
    predicted_cpu_tokens: int
    preemptions: int

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> float:
        """From arrival to the last token."""
        return self.end_s - self.arrival_s

    @property
    def itl_s(self) -> float:
        """Mean time between two tokens; 0 for a single one."""
        return (self.end_s - self.first_token_s) / max(1, self.output_tokens - 1)


@dataclass(slots=True)
class Outcome:
    """A whole run. `events` are counts of macro-events; `rejected` requests got no endpoint."""

    rows: list[RequestRow] = field(default_factory=list)
    output_counted: float = 1.0
    rejected: int = 0
    failed: int = 0
    preemptions: int = 0
    events: int = 0
    busy_share: float = 0.0
    wall_s: float = 0.0
    router_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Slo:
    """When a request counts as good."""

    ttft_s: float = 2.0
    itl_s: float = 0.050


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a run, or of a stage of it."""

    requests: int
    duration_s: float
    ttft: Spread
    itl: Spread
    e2e: Spread
    input_tok_s: float
    output_tok_s: float
    goodput: float
    gpu_hit_share: float
    cpu_hit_share: float
    preemptions: int
    rejected: int
    failed: int
    busy_share: float
    per_endpoint: dict[str, int]

    @property
    def total_tok_s(self) -> float:
        """Prompt and output tokens a second."""
        return self.input_tok_s + self.output_tok_s


def percentile(ordered: Sequence[float], share: float) -> float:
    """With linear interpolation; `ordered` ascends. 0 for nothing."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered) if ordered else 0.0
    return Spread(mean, percentile(ordered, 0.5), percentile(ordered, 0.9), percentile(ordered, 0.99))


def summarise(outcome: Outcome, slo: Slo | None = None, stage: int | None = None) -> Summary:
    """Figures of all rows, or of one stage's."""
    slo = slo or Slo()
    rows = [row for row in outcome.rows if stage is None or row.stage == stage]
    start = min((row.arrival_s for row in rows), default=0.0)
    duration_s = max((row.end_s for row in rows), default=0.0) - start
    prompt = sum(row.prompt_tokens for row in rows)
    output = sum(row.output_tokens for row in rows) * outcome.output_counted
    good = sum(row.ttft_s <= slo.ttft_s and row.itl_s <= slo.itl_s for row in rows)
    asked = len(rows) + (outcome.rejected + outcome.failed if stage is None else 0)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.endpoint] = counts.get(row.endpoint, 0) + 1
    return Summary(
        requests=len(rows),
        duration_s=duration_s,
        ttft=_spread(row.ttft_s for row in rows),
        itl=_spread(row.itl_s for row in rows if row.output_tokens > 1),
        e2e=_spread(row.e2e_s for row in rows),
        input_tok_s=prompt / duration_s if duration_s else 0.0,
        output_tok_s=output / duration_s if duration_s else 0.0,
        goodput=good / asked if asked else 0.0,
        gpu_hit_share=sum(row.gpu_hit_tokens for row in rows) / prompt if prompt else 0.0,
        cpu_hit_share=sum(row.cpu_hit_tokens for row in rows) / prompt if prompt else 0.0,
        preemptions=sum(row.preemptions for row in rows),
        rejected=outcome.rejected,
        failed=outcome.failed,
        busy_share=outcome.busy_share,
        per_endpoint=dict(sorted(counts.items())),
    )
