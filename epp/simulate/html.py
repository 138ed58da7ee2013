"""The report as one HTML page with plots drawn as SVG; it loads nothing."""

import html
from collections.abc import Iterable, Mapping, Sequence

from epp.simulate.outcome import Outcome, Slo, percentile, summarise
from epp.simulate.report import summaries_as_text

__all__ = ["page", "plot"]

_WIDTH, _HEIGHT, _MARGIN = 640, 260, 46
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "pre{background:#f6f6f6;padding:1rem;overflow:auto}figure{margin:1.5rem 0}svg{width:100%;height:auto}"
    "text{font:11px system-ui,sans-serif;fill:#444}"
)

Points = Sequence[tuple[float, float]]


def page(runs: Mapping[str, Sequence[Outcome]], slo: Slo, title: str = "epp simulate") -> str:
    """The page for runs by name, each with one outcome a seed."""
    first = {name: outcomes[0] for name, outcomes in runs.items()}
    rows = {name: [row for outcome in outcomes for row in outcome.rows] for name, outcomes in runs.items()}
    text = summaries_as_text({name: summarise(outcome, slo) for name, outcome in first.items()})
    ttft = {name: _distribution(row.ttft_s for row in found) for name, found in rows.items()}
    e2e = {name: _distribution(row.e2e_s for row in found) for name, found in rows.items()}
    figures = [
        plot("Time to first token: share of requests within s seconds", ttft),
        plot("End to end: share of requests within s seconds", e2e),
        *(
            plot(f"{name}: share of prompt tokens by source, over time (s)", _hits(o))
            for name, o in first.items()
        ),
        *(
            plot(f"{name}: requests under way, by endpoint, over time (s)", _load(o))
            for name, o in first.items()
        ),
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        "<p>Simulated on modelled servers; docs/simulation.md tells the model's error. Figures below are of "
        f"the first seed, distributions of all.</p><pre>{html.escape(text)}</pre>{''.join(figures)}</html>\n"
    )


def _distribution(values: Iterable[float]) -> Points:
    ordered = sorted(values)
    return [(percentile(ordered, share / 100), share / 100) for share in range(101)]


def _buckets(outcome: Outcome, count: int = 40) -> tuple[float, float]:
    start = min((row.arrival_s for row in outcome.rows), default=0.0)
    end = max((row.end_s for row in outcome.rows), default=1.0)
    return start, max(end - start, 1e-9) / count


def _hits(outcome: Outcome) -> dict[str, Points]:
    start, width = _buckets(outcome)
    sums: dict[int, list[int]] = {}
    for row in outcome.rows:
        bucket = sums.setdefault(int((row.first_token_s - start) / width), [0, 0, 0])
        bucket[0] += row.gpu_hit_tokens
        bucket[1] += row.cpu_hit_tokens
        bucket[2] += row.prompt_tokens
    places = sorted(sums)
    return {
        name: [(place * width, sums[place][tier] / sums[place][2]) for place in places]
        for tier, name in enumerate(("GPU hit", "CPU hit"))
    }


def _load(outcome: Outcome) -> dict[str, Points]:
    start, width = _buckets(outcome)
    addresses = sorted({row.endpoint for row in outcome.rows})
    counts = {address: [0] * 41 for address in addresses}
    for row in outcome.rows:
        first, last = int((row.arrival_s - start) / width), int((row.end_s - start) / width)
        for place in range(first, min(last, 40) + 1):
            counts[row.endpoint][place] += 1
    return {
        address: [(place * width, float(n)) for place, n in enumerate(found)]
        for address, found in counts.items()
    }


def plot(caption: str, series: Mapping[str, Points]) -> str:
    """One figure: lines by name over a shared pair of axes that begin at zero, or below where values are."""
    right = max((x for points in series.values() for x, _ in points), default=1.0) or 1.0
    values = [y for points in series.values() for _, y in points]
    bottom = min(0.0, *values, 0.0)
    top = max(0.0, *values, 0.0) or (0.0 if bottom else 1.0)
    raised = [[(x, y - bottom) for x, y in points] for points in series.values()]
    lines = [_line(points, right, top - bottom, _COLOURS[n % 8]) for n, points in enumerate(raised)]
    legend = [
        f'<text x="{_MARGIN + 8}" y="{16 + 14 * n}" style="fill:{_COLOURS[n % 8]}">{html.escape(name)}</text>'
        for n, name in enumerate(series)
    ]
    axes = (
        f'<path d="M{_MARGIN} 8V{_HEIGHT - 24}H{_WIDTH - 8}" fill="none" stroke="#888"/>'
        f'<text x="4" y="16">{top:.3g}</text><text x="{_WIDTH - 60}" y="{_HEIGHT - 6}">{right:.4g}</text>'
        f'<text x="{_MARGIN}" y="{_HEIGHT - 6}">0</text>'
        + (f'<text x="4" y="{_HEIGHT - 24}">{bottom:.3g}</text>' if bottom else "")
        + _zero(bottom, top)
    )
    return (
        f"<figure><figcaption>{html.escape(caption)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{axes}{"".join(lines + legend)}</svg></figure>'
    )


def _zero(bottom: float, top: float) -> str:
    """The line of nothing gained and nothing lost, where values lie on both sides."""
    if not bottom or top <= 0:
        return ""
    y = _HEIGHT - 24 + bottom / (top - bottom) * (_HEIGHT - 32)
    return f'<path d="M{_MARGIN} {y:.1f}H{_WIDTH - 8}" stroke="#ccc" stroke-dasharray="4"/>'


def _line(points: Points, right: float, top: float, colour: str) -> str:
    width, height = _WIDTH - _MARGIN - 8, _HEIGHT - 32
    path = " ".join(
        f"{_MARGIN + x / right * width:.1f},{_HEIGHT - 24 - y / top * height:.1f}" for x, y in points
    )
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
