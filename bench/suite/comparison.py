"""Has something slid? Ratios and instruction counts beside those that were committed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from .samples import Samples

__all__ = ["RATIOS", "Slide", "compare", "lines_of"]

RATIOS = (("1kb", "cpu_us"), ("120kb", "cpu_us"), ("sse512", "cpu_us_chunk"))
RATIO_TOLERANCE = 1.15
COUNT_TOLERANCE = 1.03


@dataclass(frozen=True, slots=True)
class Slide:
    """One figure, now and as committed; None: not measured. `tolerance` is what it may grow by."""

    what: str
    now: float | None
    before: float | None
    tolerance: float

    @property
    def slid(self) -> bool:
        return self.now is not None and self.before is not None and self.now > self.before * self.tolerance


def compare(now: Samples, before: Samples) -> list[Slide]:
    """Every ratio to nginx, and the instructions of a request."""
    found = [
        Slide(
            f"epp/nginx {workload}",
            _ratio(now, workload, metric),
            _ratio(before, workload, metric),
            RATIO_TOLERANCE,
        )
        for workload, metric in RATIOS
    ]
    counts = [samples.median("instructions", "epp", "life") for samples in (now, before)]
    return [*found, Slide("instructions a request in the core", *counts, COUNT_TOLERANCE)]


def _ratio(samples: Samples, workload: str, metric: str) -> float | None:
    epp, nginx = (samples.median(workload, stack, metric) for stack in ("epp", "nginx"))
    return epp / nginx if epp is not None and nginx else None


def lines_of(slides: Sequence[Slide]) -> list[str]:
    """A line a figure, and one that sums up."""
    lines = [f"{'':36}{'now':>12}{'committed':>12}{'change':>9}"]
    lines += [_line(slide) for slide in slides]
    slid = [slide.what for slide in slides if slide.slid]
    return [*lines, f"slid: {', '.join(slid)}" if slid else "nothing slid"]


def _line(slide: Slide) -> str:
    change = f"{slide.now / slide.before - 1:+.0%}" if slide.now and slide.before else "-"
    mark = "  SLID" if slide.slid else ""
    return f"{slide.what:36}{_number(slide.now):>12}{_number(slide.before):>12}{change:>9}{mark}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
