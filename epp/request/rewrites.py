"""Which model a request goes to instead of the one that it names."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

__all__ = ["GIVEN", "ModelRewrites", "Rewrite", "RewriteRule", "RewriteTarget"]

GIVEN: Final = "settings"
"""Where rules of the settings come from, as `RewriteRule.source`."""


@dataclass(frozen=True, slots=True)
class RewriteTarget:
    """A model, with its share of the requests: `weight` of the sum of the rule's weights."""

    model: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """Requests for one of `models` go to one of `targets`; `models` empty: requests for any model, or none.

    `source` is the name of what the rule stands in. There is at least one target; where all weights are 0,
    each target gets as much.
    """

    models: tuple[str, ...]
    targets: tuple[RewriteTarget, ...]
    source: str = GIVEN

    def choose(self, random: Callable[[], float]) -> str:
        """One of the targets by its weight; `random` is in [0, 1)."""
        targets = self.targets
        if len(targets) == 1:
            return targets[0].model
        bounds = list(accumulate(target.weight for target in targets))
        if not bounds[-1]:
            return targets[int(random() * len(targets))].model
        drawn = random() * bounds[-1]
        return next(target.model for target, bound in zip(targets, bounds, strict=True) if drawn < bound)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What became of one request: it names `asked` (None: no model) and goes to `target`."""

    asked: str | None
    target: str
    source: str

    @property
    def renames(self) -> bool:
        """The answer has another name than the client knows."""
        return self.asked is not None and self.asked != self.target


class ModelRewrites:
    """The rules in effect: those that are given, and those that are found while running.

    A rule that names a model goes before one for any model; among equals a given one before a found one, and
    the first of each list before the others.

    Attributes:
        active: there is a rule.
        names: all models that rules name, on either side; the set itself is changed.
    """

    __slots__ = ("_any", "_by_model", "_given", "active", "names")

    def __init__(self, given: Iterable[RewriteRule] = ()) -> None:
        self._given = tuple(given)
        self.names: set[str] = set()
        self.use_found(())

    def use_found(self, found: Iterable[RewriteRule]) -> None:
        """Have these rules beside the given ones, in place of those that were found before."""
        self._by_model: dict[str, RewriteRule] = {}
        self._any: RewriteRule | None = None
        self.names.clear()
        for rule in (*self._given, *found):
            for model in rule.models:
                self._by_model.setdefault(model, rule)
            self.names.update(rule.models, (target.model for target in rule.targets))
            if not rule.models and self._any is None:
                self._any = rule
        self.active = bool(self._by_model) or self._any is not None

    def choose(self, asked: str | None, random: Callable[[], float]) -> Rewrite | None:
        """What becomes of a request for `asked` (None: it names none); None: it stays as it is."""
        rule = self._by_model.get(asked, self._any) if asked is not None else self._any
        return None if rule is None else Rewrite(asked, rule.choose(random), rule.source)
