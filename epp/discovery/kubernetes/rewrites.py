"""From InferenceModelRewrites to the rules that a pool's requests follow."""

from collections.abc import Callable, Iterable
from typing import Final

from epp.discovery.kubernetes.objects import Rewrite, RewriteMatch, RewriteRuleSpec, RewriteTargetSpec
from epp.request import RewriteRule, RewriteTarget

__all__ = ["rules_of"]

_EXACT: Final = frozenset({None, "Exact"})


def rules_of(rewrites: Iterable[Rewrite], remark: Callable[[str], None]) -> tuple[RewriteRule, ...]:
    """Their rules, first those of the oldest object; of two that are as old, by name.

    `remark` hears of what is passed over.
    """
    by_age = sorted(
        rewrites, key=lambda rewrite: (rewrite.metadata.creation_timestamp, rewrite.metadata.name)
    )
    return tuple(
        rule
        for rewrite in by_age
        for number, spec in enumerate(rewrite.spec.rules or ())
        for rule in _rules(spec, rewrite.metadata.name, number, remark)
    )


def _rules(
    spec: RewriteRuleSpec, name: str, number: int, remark: Callable[[str], None]
) -> Iterable[RewriteRule]:
    where = f"rule {number} of InferenceModelRewrite {name}"
    matches = spec.matches or ()
    models = tuple(match.model.value for match in matches if _is_exact(match) and match.model is not None)
    if len(models) < len(matches):
        remark(f"{where} matches something else than an exact model, which is passed over")
    named = [target for target in spec.targets or () if target.model_rewrite]
    if not named:
        remark(f"{where} has no target and is passed over")
    elif models or not matches:  # where nothing is left to match, it must not match everything
        yield RewriteRule(models, _weighted(named, where, remark), name)


def _is_exact(match: RewriteMatch) -> bool:
    return match.model is not None and match.model.type in _EXACT and bool(match.model.value)


def _weighted(
    targets: list[RewriteTargetSpec], where: str, remark: Callable[[str], None]
) -> tuple[RewriteTarget, ...]:
    """All have weights or none has; otherwise those without get nothing, as with the Go picker."""
    weights = [target.weight for target in targets if target.weight is not None]
    if weights and len(weights) < len(targets):
        remark(f"{where} gives some targets a weight: those without get no requests")
    missing = 0 if weights else 1
    return tuple(
        RewriteTarget(target.model_rewrite, missing if target.weight is None else max(0, target.weight))
        for target in targets
    )
