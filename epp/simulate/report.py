"""Results as text and as JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from epp.simulate.decisions import Regret
from epp.simulate.experiment import Difference
from epp.simulate.outcome import Spread, Summary
from epp.simulate.reference import Cell

__all__ = [
    "cells_as_json", "cells_as_text", "differences_as_text", "regret_as_text", "summaries_as_json",
    "summaries_as_text", "table",
]  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = []
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)),
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def _number(value: float, metric: str) -> str:
    if metric == "throughput_tok_s":
        return f"{value:,.0f}"
    return f"{value:.2f}"


def cells_as_text(cells: Sequence[Cell]) -> str:
    """Published and simulated side by side, then how large the errors are."""
    rows = [
        [
            f"{cell.table}, {cell.row}",
            cell.metric,
            _number(cell.published, cell.metric)
            + (f" ({_number(cell.published_also, cell.metric)})" if cell.published_also else ""),
            _number(cell.simulated, cell.metric),
            f"{cell.error:+.1%}",
        ]
        for cell in cells
    ]
    errors = sorted(abs(cell.error) for cell in cells)
    mean = sum(errors) / len(errors)
    median = errors[len(errors) // 2]
    said = f"{len(errors)} cells: error {mean:.1%} in the mean, {median:.1%} median, {errors[-1]:.1%} at most"
    return f"{table(('row', 'metric', 'published', 'simulated', 'error'), rows)}\n\n{said}\n"


def cells_as_json(cells: Sequence[Cell]) -> str:
    """`{"cells": [{"table", "row", "metric", "published", "simulated", "error"}]}`, error as a fraction."""
    shown = [
        {
            "table": cell.table,
            "row": cell.row,
            "metric": cell.metric,
            "published": cell.published,
            "simulated": round(cell.simulated, 4),
            "error": round(cell.error, 4),
            **({"published_also": cell.published_also} if cell.published_also is not None else {}),
        }
        for cell in cells
    ]
    return json.dumps({"cells": shown}, indent=2) + "\n"


def _spread(spread: Spread) -> list[str]:
    return [f"{value:.3f}" for value in (spread.mean, spread.p50, spread.p90, spread.p99)]


def summaries_as_text(summaries: Mapping[str, Summary]) -> str:
    """One block of figures a run."""
    blocks = []
    for name, summary in summaries.items():
        times = table(
            ("seconds", "mean", "p50", "p90", "p99"),
            [
                ["time to first token", *_spread(summary.ttft)],
                ["between tokens", *_spread(summary.itl)],
                ["end to end", *_spread(summary.e2e)],
            ],
        )
        blocks.append(f"{name}\n{times}\n{_shares(summary)}")
    return "\n\n".join(blocks) + "\n"


def _shares(summary: Summary) -> str:
    s = summary
    gpu, cpu = s.gpu_hit_share, s.cpu_hit_share
    counts = ", ".join(f"{address} {count}" for address, count in s.per_endpoint.items())
    rows = {
        "tokens/s": f"{s.input_tok_s:,.0f} in, {s.output_tok_s:,.0f} out, {s.total_tok_s:,.0f} in all",
        "goodput": f"{s.goodput:.1%} of requests",
        "prompt tokens": f"{gpu:.1%} hit in GPU, {cpu:.1%} in CPU, {1 - gpu - cpu:.1%} computed",
        "requests": f"{s.requests} ended, {s.rejected} rejected, {s.failed} failed, "
        f"{s.preemptions} preemptions",
        "endpoints": f"busy {s.busy_share:.1%}; requests {counts}",
    }
    return "\n".join(f"{name:<19}{text}" for name, text in rows.items())


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value


def differences_as_text(differences: Sequence[Difference]) -> str:
    """B against A."""
    rows = [
        [
            d.metric,
            _number(d.a, d.metric),
            _number(d.b, d.metric),
            f"{d.change:+.1%}",
            f"{d.low:+.1%} to {d.high:+.1%}",
        ]
        for d in differences
    ]
    return table(("B against A", "A", "B", "change", "95 % interval"), rows) + "\n"


def regret_as_text(regret: Regret) -> str:
    """A line on what decisions cost."""
    return (
        f"{regret.decisions} decisions: the best endpoint in {regret.best_share:.0%}; "
        f"regret {regret.mean_s:.3f} s in the mean, {regret.p90_s:.3f} s at P90\n"
    )


def summaries_as_json(summaries: Mapping[str, Summary]) -> str:
    """The same figures by run."""
    shown = {
        name: {**_rounded(asdict(summary)), "total_tok_s": round(summary.total_tok_s, 6)}
        for name, summary in summaries.items()
    }
    return json.dumps({"runs": shown}, indent=2) + "\n"
