"""Bytes per token, learned from what endpoints report.

Matches, capacities and costs are in tokens, prompts are in bytes. The ratio is a property of the text as
much as of the model (English, code and Vietnamese differ by a factor of two), so it is kept twice: for the
model as a moving average, and for each prompt family (prompts with the same first block), where one report
is enough to know nearly exactly what a repeat of the prefix is worth.
"""

from typing import Final

from epp.director.recent import RecentNumbers
from epp.endpoints.types import EndpointMetrics

__all__ = ["ASSUMED_BYTES_PER_TOKEN", "CounterRatios", "TokenRatios"]

ASSUMED_BYTES_PER_TOKEN: Final = 4.0

# A ratio outside is not about text: an image, a truncated prompt, a counter that others moved.
_LEAST: Final = 0.5
_MOST: Final = 16.0
_MODEL_WEIGHT: Final = 0.3  # of a new report in the model's average: ten reports forget 97 % of the past
_FAMILY_WEIGHT: Final = 0.5
_MAX_FAMILIES: Final = 8192


class TokenRatios:
    """Learned bytes per token, by model and by (model, prompt family)."""

    def __init__(self) -> None:
        self._models: RecentNumbers[str] = RecentNumbers()
        self._families: RecentNumbers[tuple[str, int]] = RecentNumbers(_MAX_FAMILIES)

    def bytes_per_token(self, model: str, family: int | None = None) -> float:
        """The best known ratio: the family's, else the model's, else four."""
        if family is not None:
            of_family = self._families.get((model, family))
            if of_family is not None:
                return of_family
        known = self._models.get(model)
        return ASSUMED_BYTES_PER_TOKEN if known is None else known

    def assumed(self, model: str) -> bool:
        """True until something was learned of the model."""
        return self._models.get(model) is None

    def models(self) -> dict[str, float]:
        """Learned ratios by model."""
        return self._models.all()

    def families(self) -> list[tuple[str, int, float]]:
        """Learned ratios by model and prompt family, the least recently learned first."""
        return [(model, family, ratio) for (model, family), ratio in self._families.all().items()]

    def learn(self, model: str, prompt_bytes: float, prompt_tokens: float, family: int | None = None) -> None:
        """Take one report; implausible ones are ignored."""
        if prompt_bytes <= 0 or prompt_tokens <= 0:
            return
        ratio = prompt_bytes / prompt_tokens
        if not _LEAST <= ratio <= _MOST:
            return
        self._models.blend(model, ratio, _MODEL_WEIGHT)
        if family is not None:
            self._families.blend((model, family), ratio, _FAMILY_WEIGHT)

    def set_initial(self, model: str, ratio: float) -> None:
        """Start value from `/tokenize`; what requests taught stands above it."""
        if _LEAST <= ratio <= _MOST and self.assumed(model):
            self._models.set(model, ratio)

    def set_initial_family(self, model: str, family: int, ratio: float) -> None:
        """Start value that another process learned; older than everything that is known of families."""
        if _LEAST <= ratio <= _MOST:
            self._families.set_oldest((model, family), ratio)


class CounterRatios:
    """Learns from the growth of `vllm:prompt_tokens_total` where responses carry no usage.

    Between two scrapes at which this router had nothing in flight at the endpoint, the counter grew by the
    tokens of exactly the prompts that were sent there, if nobody else sends to it; a share that is not text
    or not ours makes the ratio implausible or blends out.
    """

    def __init__(self, ratios: TokenRatios) -> None:
        self._ratios = ratios
        self._anchors: dict[int, float] = {}
        self._sent: dict[int, dict[str, int]] = {}

    def sent(self, slot: int, model: str, prompt_bytes: int) -> None:
        """A prompt ended at the endpoint in `slot` without usage in its response."""
        by_model = self._sent.setdefault(slot, {})
        # Two models already make the interval useless; clients may name any number of them.
        if model in by_model or len(by_model) < 2:
            by_model[model] = by_model.get(model, 0) + prompt_bytes

    def spoiled(self, slot: int) -> None:
        """A prompt of unknown bytes moved the counter: this interval teaches nothing."""
        self._anchors.pop(slot, None)
        self._sent.pop(slot, None)

    def scraped(self, slot: int, metrics: EndpointMetrics, in_flight: int) -> None:
        """A scrape came; only those at rest count."""
        total = metrics.prompt_tokens_total
        if total is None or in_flight:
            return
        anchor = self._anchors.get(slot)
        sent = self._sent.pop(slot, {})
        self._anchors[slot] = total
        if anchor is None or len(sent) != 1:
            return
        ((model, prompt_bytes),) = sent.items()
        self._ratios.learn(model, prompt_bytes, total - anchor)
