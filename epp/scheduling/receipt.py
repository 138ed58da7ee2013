"""Renders a decision: why this endpoint and not another. Pure, and only done when somebody asks."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import Decision, ProfileResult

__all__ = ["HEADER_LIMIT_BYTES", "Excluded", "PredictedHit", "header_value", "render"]

HEADER_LIMIT_BYTES: Final = 1024

_UNSAFE = re.compile(r"[^A-Za-z0-9._:\[\]-]")
_CUT: Final = "..."


@dataclass(frozen=True, slots=True)
class PredictedHit:
    """Tokens of the prompt that an endpoint is thought to hold; None where no view stands for the tier."""

    gpu_tokens: int | None = None
    cpu_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """An endpoint that was no candidate, and why."""

    address: str
    reason: str


NO_HITS: Final[Mapping[int, PredictedHit]] = {}


def render(
    decision: Decision,
    picked: Endpoint,
    hits: Mapping[int, PredictedHit] = NO_HITS,
    excluded: Iterable[Excluded] = (),
) -> dict[str, Any]:
    """The decision as a dictionary for JSON: the picked endpoint first, then the others by total.

    `hits` is by slot; `excluded` are endpoints that were ruled out before scheduling (ejected, draining,
    of another model). Those that a filter dropped are added with the filter's name.

    Keys: picked, profile, requested_model (as the client named it, null when it did not), model (what it was
    resolved or rewritten to), adapter, prompt_tokens, weight_sum, candidates, excluded. A candidate has
    endpoint, total, fresh (its metrics were), predicted_hit_tokens {gpu, cpu} and scores by scorer: score in
    [0, 1], weight, and share, the part of the total that comes from this scorer (0 when the total is 0).
    """
    result, cycle = decision.primary, decision.cycle
    places = sorted(
        range(len(result.candidates)),
        key=lambda place: (result.candidates[place].address != picked.address, -result.totals[place]),
    )
    columns = [(column.scorer, column.weight, list(column.scores)) for column in result.columns]
    return {
        "picked": picked.address,
        "profile": result.profile,
        "requested_model": cycle.request.model,
        "model": cycle.model,
        "adapter": cycle.adapter,
        "prompt_tokens": cycle.prompt_tokens,
        "weight_sum": _weight_sum(result),
        "candidates": [_candidate(place, result, columns, hits) for place in places],
        "excluded": [{"endpoint": e.address, "reason": e.reason} for e in _all_excluded(result, excluded)],
    }


def _candidate(
    place: int,
    result: ProfileResult,
    columns: list[tuple[str, float, list[float]]],
    hits: Mapping[int, PredictedHit],
) -> dict[str, Any]:
    endpoint, total = result.candidates[place], result.totals[place]
    hit = hits.get(endpoint.slot, PredictedHit())
    return {
        "endpoint": endpoint.address,
        "total": round(total, 6),
        "fresh": endpoint.fresh,
        "predicted_hit_tokens": {"gpu": hit.gpu_tokens, "cpu": hit.cpu_tokens},
        "scores": {
            name: {
                "score": round(scores[place], 6),
                "weight": weight,
                "share": round(weight * scores[place] / total, 6) if total else 0.0,
            }
            for name, weight, scores in columns
        },
    }


def _weight_sum(result: ProfileResult) -> float:
    return sum(column.weight for column in result.columns)


def _all_excluded(result: ProfileResult, excluded: Iterable[Excluded]) -> list[Excluded]:
    filtered = [Excluded(endpoint.address, f"filter {name}") for endpoint, name in result.excluded]
    return [*excluded, *filtered]


def header_value(
    decision: Decision,
    picked: Endpoint,
    hits: Mapping[int, PredictedHit] = NO_HITS,
    excluded: Iterable[Excluded] = (),
) -> str:
    """The decision in one line of ASCII for `x-epp-decision`, at most 1,024 bytes.

    `picked total=T/SUM model=M hit=gpu:N,cpu:N candidates=N excluded=N next=ENDPOINT=TOTAL
    SCORER=SCORE*WEIGHT …`; `model` is there where the client named another one, which was rewritten. What a
    decision does not have is left out. Whole words are dropped from the end when it gets too long, and `...`
    says so.
    """
    result = decision.primary
    words = [
        _safe(picked.address),
        *_total_word(result, picked),
        *_model_word(decision),
        *_hit_word(hits.get(picked.slot, PredictedHit())),
        f"candidates={len(result.candidates)}",
        *_excluded_word(_all_excluded(result, excluded)),
        *_next_word(result, picked),
        *_score_words(result, picked),
    ]
    return _joined(words)


def _place_of(result: ProfileResult, picked: Endpoint) -> int | None:
    """Where the picked endpoint stands, None when it was no candidate."""
    addresses = [endpoint.address for endpoint in result.candidates]
    return addresses.index(picked.address) if picked.address in addresses else None


def _total_word(result: ProfileResult, picked: Endpoint) -> list[str]:
    place = _place_of(result, picked)
    return [] if place is None else [f"total={result.totals[place]:.3f}/{_weight_sum(result):g}"]


def _score_words(result: ProfileResult, picked: Endpoint) -> list[str]:
    place = _place_of(result, picked)
    if place is None:
        return []
    return [f"{_safe(c.scorer)}={c.scores[place]:.3f}*{c.weight:g}" for c in result.columns]


def _model_word(decision: Decision) -> list[str]:
    named, model = decision.cycle.request.model, decision.cycle.model
    return [] if named is None or named == model else [f"model={_safe(model)}"]


def _hit_word(hit: PredictedHit) -> list[str]:
    known = [f"{tier}:{n}" for tier, n in (("gpu", hit.gpu_tokens), ("cpu", hit.cpu_tokens)) if n is not None]
    return [f"hit={','.join(known)}"] if known else []


def _excluded_word(excluded: list[Excluded]) -> list[str]:
    return [f"excluded={len(excluded)}"] if excluded else []


def _next_word(result: ProfileResult, picked: Endpoint) -> list[str]:
    """The best of the others: how close it was."""
    others = [
        (total, endpoint)
        for total, endpoint in zip(result.totals, result.candidates, strict=True)
        if endpoint.address != picked.address
    ]
    if not others:
        return []
    total, endpoint = max(others, key=itemgetter(0))
    return [f"next={_safe(endpoint.address)}={total:.3f}"]


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)


def _joined(words: list[str]) -> str:
    line = " ".join(words)
    while len(line) > HEADER_LIMIT_BYTES and len(words) > 1:
        words = words[:-1]
        line = " ".join([*words, _CUT])
    return line[:HEADER_LIMIT_BYTES]
