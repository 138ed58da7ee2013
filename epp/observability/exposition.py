"""Prometheus text format 0.0.4, in slices of bounded work."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from epp.observability.instruments import Family, Histogram

__all__ = ["CONTENT_TYPE", "Sample", "render"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Value = int | float | Histogram
Sample = tuple[Sequence[str], Value]  # label values in the order of `Family.labels`, and the value

_SLICE_LINES: Final = 200  # about a third of a millisecond


def render(family: Family, samples: Iterable[Sample]) -> Iterator[bytes]:
    """The family and, from the same values, its twin.

    A twin with fewer labels sums what falls together. Families without samples still say that they exist.
    """
    samples = list(samples)
    yield from _one(family.name, family, family.labels, samples)
    if family.twin is not None:
        chosen = [family.labels.index(label) for label in family.twin.labels.values()]
        same = chosen == list(range(len(family.labels)))
        projected = samples if same else _projected(samples, chosen)
        yield from _one(family.twin.name, family, tuple(family.twin.labels), projected)


def _projected(samples: Iterable[Sample], chosen: Sequence[int]) -> list[Sample]:
    sums: dict[tuple[str, ...], Value] = {}
    for values, value in samples:
        key = tuple([values[index] for index in chosen])
        known = sums.get(key)
        sums[key] = value if known is None else _sum(known, value)
    return list(sums.items())


def _sum(left: Value, right: Value) -> Value:
    if isinstance(left, Histogram) and isinstance(right, Histogram):
        return left.merged(right)
    if isinstance(left, Histogram) or isinstance(right, Histogram):
        raise AssertionError("a family has one kind of value")  # noqa: TRY004 - not about a caller's type
    return left + right


def _one(name: str, family: Family, labels: Sequence[str], samples: Iterable[Sample]) -> Iterator[bytes]:
    lines = [f"# HELP {name} {_escaped_help(family.help)}", f"# TYPE {name} {family.type}"]
    bounds = [_number(bound) for bound in family.bounds]
    for values, value in samples:
        pairs = ",".join([f'{label}="{_escaped(text)}"' for label, text in zip(labels, values, strict=True)])
        if isinstance(value, Histogram):
            lines.extend(_histogram(name, pairs, bounds, value))
        else:
            lines.append(f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}")
        if len(lines) >= _SLICE_LINES:
            yield _encoded(lines)
            lines.clear()
    if lines:
        yield _encoded(lines)


def _histogram(name: str, pairs: str, bounds: Sequence[str], value: Histogram) -> Iterator[str]:
    comma = "," if pairs else ""
    total = 0
    for bound, count in zip((*bounds, "+Inf"), value.counts, strict=True):
        total += count
        yield f'{name}_bucket{{{pairs}{comma}le="{bound}"}} {total}'
    braces = f"{{{pairs}}}" if pairs else ""
    yield f"{name}_sum{braces} {_number(value.sum)}"
    yield f"{name}_count{braces} {total}"


def _encoded(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
