"""The results as one SVG picture: bars beside nginx and the other routers, and growth curves. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .plan import ENDPOINT_COUNTS, PROMPT_SIZES, STREAM_COUNTS
from .samples import Samples
from .table import number, stack_order

__all__ = ["Panel", "bar_panel", "curve_panel", "picture"]

WIDTH, PANEL_HEIGHT, GAP = 900, 250, 24
COLUMNS = 2
PANEL_WIDTH = (WIDTH - GAP * (COLUMNS + 1)) // COLUMNS
LABELS, VALUES = 170, 60  # widths left and right of the bars
COLOURS = {  # of the first whose name a stack's begins with
    "epp-": "#7fb8a4",
    "epp": "#0b6e4f",
    "nginx": "#8a8d91",
    "vllm-router cache_aware": "#b5651d",
    "vllm-router": "#dcae85",
    "sglang-router cache_aware": "#3d659e",
    "sglang-router": "#a3b8d6",
    "smg cache_aware": "#7d5ba6",
    "smg": "#bfaed6",
}
OTHER_COLOUR = "#c2a83e"
LEGEND_COLUMNS, LEGEND_WIDTH = 2, 190
STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:13px}"
    ".small{font-size:10px;fill:#666}"
)
BARS = (
    ("CPU µs a request, 1 KB", "1kb", "cpu_us"),
    ("CPU µs a request, 120 KB", "120kb", "cpu_us"),
    ("CPU µs an SSE chunk, 512 streams", "sse512", "cpu_us_chunk"),
    ("chunk delay p99, µs, 512 streams", "sse512", "chunk_delay_p99_us"),
)
CURVES = (
    ("CPU µs a request of 1 KB by endpoints", "endpoints-{}-1kb", ENDPOINT_COUNTS, "cpu_us"),
    ("CPU µs a request by bytes of prompt", "prompt-{}", PROMPT_SIZES, "cpu_us"),
    ("CPU µs a chunk by streams", "streams-{}", STREAM_COUNTS, "cpu_us_chunk"),
    ("chunk delay p99, µs, by streams", "streams-{}", STREAM_COUNTS, "chunk_delay_p99_us"),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the picture; its elements are placed from its own upper left corner."""

    title: str
    elements: tuple[str, ...]


def colour(name: str) -> str:
    return next((paint for start, paint in COLOURS.items() if name.startswith(start)), OTHER_COLOUR)


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, paint: str) -> str:
    return f'<rect x="{x:.0f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{paint}"/>'


def bar_panel(title: str, values: dict[str, float]) -> Panel:
    """Horizontal bars from zero, in the order given."""
    room = PANEL_WIDTH - LABELS - VALUES
    height = min(22.0, (PANEL_HEIGHT - 36) / max(len(values), 1))
    largest = max(values.values(), default=0.0) or 1.0
    elements = []
    for place, (name, value) in enumerate(values.items()):
        top = 30 + place * height
        length = room * value / largest
        middle = top + height * 0.68
        elements += [
            text(LABELS - 6, middle, name, anchor="end"),
            rectangle(LABELS, top, length, height * 0.75, colour(name)),
            text(LABELS + length + 5, middle, number(value)),
        ]
    return Panel(title, tuple(elements))


def curve_panel(title: str, curves: dict[str, list[tuple[float, float]]]) -> Panel:
    """Lines on two logarithmic axes, with the values of the first curve, which is epp's."""
    points = [point for curve in curves.values() for point in curve if point[1] > 0]
    if not points:
        return Panel(title, ())
    across = _axis([x for x, _ in points], 50, PANEL_WIDTH - 60)
    down = _axis([y for _, y in points], PANEL_HEIGHT - 36, 68)
    elements = [
        text(across(x), PANEL_HEIGHT - 14, number(x), anchor="middle", kind="small")
        for x in sorted({x for x, _ in points})
    ]
    for place, (name, curve) in enumerate(curves.items()):
        shown = [(across(x), down(y), y) for x, y in curve if y > 0]
        paint = colour(name)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in shown)
        elements.append(f'<polyline points="{path}" fill="none" stroke="{paint}" stroke-width="2"/>')
        elements += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{paint}"/>' for x, y, _ in shown]
        labelled = shown if place == 0 else []
        elements += [text(x, y - 6, number(value), anchor="middle", kind="small") for x, y, value in labelled]
        left = 50 + place % LEGEND_COLUMNS * LEGEND_WIDTH
        top = 22 + place // LEGEND_COLUMNS * 14
        elements += [rectangle(left, top, 10, 10, paint), text(left + 14, top + 9, name, kind="small")]
    return Panel(title, tuple(elements))


def _axis(values: Sequence[float], start: float, end: float):
    """Value → place, logarithmic."""
    low, high = math.log(min(values)), math.log(max(values))
    span = (high - low) or 1.0
    return lambda value: start + (end - start) * (math.log(value) - low) / span


def panels(samples: Samples) -> list[Panel]:
    """Every panel for which there are figures."""
    found = []
    for title, workload, metric in BARS:
        names = sorted(samples.stacks(workload), key=stack_order)
        values = {name: samples.median(workload, name, metric) for name in names if name != "direct"}
        known = {name: value for name, value in values.items() if value}
        if known:
            found.append(bar_panel(title, known))
    for title, workload, sizes, metric in CURVES:
        curves = _curves(samples, workload, sizes, metric)
        if curves:
            found.append(curve_panel(title, curves))
    return found


def _curves(samples: Samples, workload: str, sizes: Sequence[int], metric: str):
    names = {name for size in sizes for name in samples.stacks(workload.format(size))}
    curves = {}
    for name in sorted(names, key=stack_order):
        points = [(float(size), samples.median(workload.format(size), name, metric)) for size in sizes]
        known = [(size, value) for size, value in points if value]
        if known:
            curves[name] = known
    return curves


def picture(samples: Samples) -> str:
    """The whole SVG document."""
    shown = panels(samples)
    height = GAP + math.ceil(len(shown) / COLUMNS) * (PANEL_HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for place, panel in enumerate(shown):
        x = GAP + place % COLUMNS * (PANEL_WIDTH + GAP)
        y = GAP + place // COLUMNS * (PANEL_HEIGHT + GAP)
        body = "\n".join((text(0, 14, panel.title, kind="title"), *panel.elements))
        parts.append(f'<g transform="translate({x},{y})">\n{body}\n</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"
