"""The samples of one page, as numbers of engines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from epp.scrape.engines import Selector
from epp.scrape.exposition import Sample

__all__ = ["EngineKey", "Samples"]

# No count of requests or tokens and no time is larger. NaN and infinity fail `0 <= value <= _LARGEST`, and
# sums of what passes are finite.
_LARGEST: Final = 1e18
# Ranks of one engine repeat what the engine says, and so do worker processes.
_REPLICAS: Final = frozenset(("tp_rank", "pp_rank", "ep_rank", "moe_ep_rank", "pid"))


class EngineKey(NamedTuple):
    """One data-parallel engine of one model."""

    rank: str
    model: str


class Samples:
    """Looks up samples by selector and refuses those that cannot be true.

    Attributes:
        rejected: the fields that a sample was refused for: NaN, infinite, negative or over the maximum.
    """

    __slots__ = ("_found", "rejected")

    def __init__(self, found: Mapping[str, Sequence[Sample]]) -> None:
        self._found = found
        self.rejected: set[str] = set()

    def labels(self, name: str) -> list[Mapping[str, str]]:
        """The label sets of an info metric."""
        return [sample.labels for sample in self._found.get(name, ())]

    def first(self, selectors: Iterable[Selector]) -> Sequence[Sample]:
        """The samples of the first selector that the page has any of."""
        for selector in selectors:
            samples = self._found.get(selector.name)
            if samples and selector.labels:
                wanted = selector.labels
                samples = [s for s in samples if all(s.labels.get(key) == value for key, value in wanted)]
            if samples:
                return samples
        return ()

    def total(self, field: str, selectors: Iterable[Selector]) -> float | None:
        """A counter, all its series together."""
        samples = self.usable(field, self.first(selectors))
        return sum(sample.value for sample in samples) if samples else None

    def by_engine(
        self, field: str, selectors: Iterable[Selector], most: float = _LARGEST
    ) -> dict[EngineKey, float]:
        """A gauge, one number an engine; empty when the page has none or one that cannot be true.

        Series of one engine that differ in a rank or process label say the same thing, and the largest
        counts; those that differ in any other label are parts (waiting by reason) and are added up.
        """
        samples = self.usable(field, self.first(selectors), most)
        if len(samples) == 1:
            return {_key(samples[0].labels): samples[0].value}
        parts: dict[tuple[EngineKey, frozenset[tuple[str, str]]], float] = {}
        for labels, value in samples:
            kind = frozenset(label for label in labels.items() if label[0] not in _REPLICAS)
            part = (_key(labels), kind)
            parts[part] = max(value, parts.get(part, 0.0))
        numbers: dict[EngineKey, float] = {}
        for (key, _), value in parts.items():
            numbers[key] = numbers.get(key, 0.0) + value
        if max(numbers.values(), default=0.0) > most:
            self.rejected.add(field)
            return {}
        return numbers

    def usable(self, field: str, samples: Sequence[Sample], most: float = _LARGEST) -> Sequence[Sample]:
        """The samples, or none at all when one of them cannot be true: a part of a sum would mislead."""
        for _, value in samples:
            if not 0 <= value <= most:
                self.rejected.add(field)
                return ()
        return samples


def _key(labels: Mapping[str, str]) -> EngineKey:
    rank = labels.get("engine") or labels.get("dp_rank") or ""
    return EngineKey(rank, labels.get("model_name") or labels.get("model") or "")
