"""context-length-aware."""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Column, Cycle, SegmentColumn, Volatility
from epp.scheduling.registry import param
from epp.scheduling.scorers.load import NEUTRAL

__all__ = ["ContextLengthAwareFilter", "ContextLengthAwareParameters", "ContextLengthAwareScorer"]

RANGE_LABEL: Final = "llm-d.ai/context-length-range"
_RANGE: Final = re.compile(r"\s*([0-9]{1,12})\s*-\s*([0-9]{1,12})\s*")
_OUTSIDE: Final = 0.3  # below it: out of the range
_OUTSIDE_SCALE_TOKENS: Final = 1000
_WIDTH_SCALE_TOKENS: Final = 10_000
_WIDTH_SHARE: Final = 0.7  # of the score inside the range; the rest is for room above the prompt

_Range = tuple[int, int]  # first and last length in tokens
_UNREADABLE: Final = (1, 0)  # no length is inside


@dataclass(frozen=True, slots=True)
class ContextLengthAwareParameters:
    """Parameters of context-length-aware."""

    label: str = param(RANGE_LABEL, key="label", doc="Label with the range, as in 0-8192.")
    enable_filtering: bool = param(
        False, key="enableFiltering", doc="Also drop the endpoints whose range the prompt is not in."
    )


class ContextLengthAwareScorer:
    """Prefers endpoints that are labelled for prompts of this length, narrow ranges first.

    Formula, n = estimated prompt tokens, label a-b, w = b - a: inside, 0.3 + 0.7 * (0.7 / (1 + w / 10000) +
    0.3 * (b - n) / w), and 1 when w = 0; outside, 0.3 / (1 + d / 1000), d = tokens to the nearer end; an
    unreadable label 0 (as the Go picker).
    Missing data: no label is 0.5; so is a request whose prompt is not visible, for every endpoint.
    Ties: equal labels give equal scores.
    """

    type: ClassVar[str] = "context-length-aware"
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, label: str = RANGE_LABEL) -> None:
        self.name = name
        self._label = label
        self._ranges: IdentityCache[list[_Range | None]] = IdentityCache()

    @staticmethod
    def build(
        name: str, parameters: ContextLengthAwareParameters, _context: BuildContext
    ) -> "ContextLengthAwareScorer":
        """Factory for the registry; with `enableFiltering` the plugin is a filter, too."""
        kind = ContextLengthAwareFilter if parameters.enable_filtering else ContextLengthAwareScorer
        return kind(name, parameters.label)

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        length = cycle.prompt_tokens
        if not length:
            return SegmentColumn(cycle.slots(), NEUTRAL)
        ranges = self._ranges_of(cycle.candidates)
        # Endpoints are many, distinct labels few.
        score_of = {bounds: _score(length, bounds) for bounds in set(ranges)}
        return [score_of[bounds] for bounds in ranges]

    def _ranges_of(self, candidates: tuple[Endpoint, ...]) -> list[_Range | None]:
        ranges = self._ranges.get(candidates)
        if ranges is None:
            ranges = [_parsed(endpoint.spec.labels.get(self._label)) for endpoint in candidates]
            self._ranges.put(candidates, ranges)
        return ranges


class ContextLengthAwareFilter(ContextLengthAwareScorer):
    """The same, and drops the endpoints whose range the prompt is not in; those without a label stay."""

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates to keep, in the same order."""
        length = cycle.prompt_tokens
        if not length:
            return cycle.candidates
        ranges = self._ranges_of(cycle.candidates)
        return tuple(
            endpoint
            for endpoint, bounds in zip(cycle.candidates, ranges, strict=True)
            if bounds is None or bounds[0] <= length <= bounds[1]
        )


def _parsed(label: str | None) -> _Range | None:
    if label is None:
        return None
    match = _RANGE.fullmatch(label)
    if match is None or int(match[1]) > int(match[2]):
        return _UNREADABLE
    return int(match[1]), int(match[2])


def _score(length: int, bounds: _Range | None) -> float:
    if bounds is None:
        return NEUTRAL
    if bounds == _UNREADABLE:
        return 0.0
    first, last = bounds
    width = last - first
    if not first <= length <= last:
        distance = first - length if length < first else length - last
        return _OUTSIDE / (1 + distance / _OUTSIDE_SCALE_TOKENS)
    if width == 0:
        return 1.0
    inside = _WIDTH_SHARE / (1 + width / _WIDTH_SCALE_TOKENS) + (1 - _WIDTH_SHARE) * (last - length) / width
    return _OUTSIDE + (1 - _OUTSIDE) * inside
