"""The findings for people and for programs."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from epp.doctor.examine import exit_status
from epp.doctor.finding import POOL, Finding, Severity
from epp.doctor.observation import Observation

__all__ = ["as_dict", "as_text"]

_WIDTH: Final = 110
_LABELS: Final = ("seen", "why", "remedy")


def as_dict(pool: Sequence[Observation], findings: Sequence[Finding], config_source: str) -> dict[str, Any]:
    """JSON-ready; keys are only ever added. The pool's findings have the endpoint null."""
    counts = Counter(found.severity for found in findings)
    return {
        "config": config_source,
        "endpoints": [_endpoint_as_dict(seen) for seen in pool],
        "findings": [_finding_as_dict(found) for found in findings],
        "counts": {severity.value: counts[severity] for severity in Severity},
        "exit_status": exit_status(findings),
    }


def _endpoint_as_dict(seen: Observation) -> dict[str, Any]:
    return {
        "endpoint": seen.address,
        "url": seen.spec.url,
        "engine": seen.engine,
        "version": seen.version_text,
        "models": None if seen.models is None else [model.id for model in seen.models],
        "probed": seen.probe is not None,
    }


def _finding_as_dict(found: Finding) -> dict[str, Any]:
    return {
        "code": found.code,
        "severity": found.severity.value,
        "endpoint": found.endpoint or None,
        "seen": found.seen,
        "why": found.why,
        "remedy": found.remedy,
    }


def as_text(pool: Sequence[Observation], findings: Sequence[Finding], config_source: str) -> str:
    """Grouped by endpoint, then the pool, then a line with the counts."""
    lines = [f"configuration: {config_source}", ""]
    for seen in pool:
        lines.append(_title(seen))
        lines += _group(found for found in findings if found.endpoint == seen.address)
    lines.append("pool and settings")
    lines += _group(found for found in findings if found.endpoint == POOL)
    lines.append(_summary(findings))
    if pool and not any(seen.probe for seen in pool):
        lines.append(
            "Whether usage tells cached tokens was not checked: --probe sends a completion of one token."
        )
    return "\n".join(lines)


def _title(seen: Observation) -> str:
    engine = " ".join(filter(None, (seen.engine, seen.version_text)))
    models = ", ".join(model.id for model in seen.models or ())
    about = ", ".join(filter(None, (engine, models)))
    return f"{seen.spec.url}  ({about})" if about else seen.spec.url


def _group(findings: Iterable[Finding]) -> Iterator[str]:
    empty = True
    for found in sorted(findings, key=lambda found: list(Severity).index(found.severity)):
        empty = False
        yield f"  {found.severity.upper():8} {found.code}"
        for label in _LABELS:
            yield from _wrapped(label, getattr(found, label))
    if empty:
        yield "  fine"
    yield ""


def _wrapped(label: str, text: str) -> list[str]:
    first = f"    {label:8} "
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing found"
    counts = Counter(found.severity for found in findings)
    parts = (_counted(counts[severity], severity.value) for severity in Severity if counts[severity])
    return f"{', '.join(parts)}; docs/doctor.md explains every code"


def _counted(count: int, word: str) -> str:
    plural = "" if count == 1 or word == "info" else "s"
    return f"{count} {word}{plural}"
