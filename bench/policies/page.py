"""The results as text and as Markdown. Pure."""

from collections.abc import Mapping, Sequence

from .bars import Bar, Figures, Found


def as_text(workload: str, policy: str, row: Figures) -> str:
    """A line of the terminal."""
    return (
        f"{workload:17} {policy:30} TTFT {row['ttft_mean_s']:7.3f}  P90 {row['ttft_p90_s']:7.2f}  "
        f"P99 {row['ttft_p99_s']:7.1f}  E2E {row['e2e_mean_s']:7.2f}  {row['tok_s']:8,.0f} tok/s  "
        f"goodput {row['goodput']:.3f}"
    )


def as_markdown(found: Found, bars: Sequence[Bar], seeds: int) -> str:
    """Bars first, then the figures of every policy and workload."""
    lines = [
        "# Routing policies, simulated",
        "",
        f"Written by `make policies`: means over {seeds} seeds; ± is half of the spread. How far the model",
        "is from published measurements stands in docs/simulation.md. Other routers' rules are",
        "re-implementations from their documents: use the ranking, not the last digit.",
        "",
        "| bar | against | value | must be | met |",
        "|---|---|---|---|---|",
        *map(_bar, bars),
    ]
    for workload, rows in found.items():
        lines += ["", f"## {workload}", "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _bar(bar: Bar) -> str:
    sign = "≥" if bar.least else "≤"
    met = "yes" if bar.met else "**no**"
    return f"| {bar.name} | {bar.against or '-'} | {_number(bar.value)} | {sign} {_number(bar.bar)} | {met} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3f}"


def _table(rows: Mapping[str, Figures]) -> list[str]:
    stages = [key for key in next(iter(rows.values())) if " at " in key]
    header = ["policy", "TTFT mean s", "P50", "P90", "P99", "E2E mean s", "tokens/s", "goodput"]
    header += [f"TTFT {stage.split(' at ')[1]} QPS" for stage in stages]
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for policy, row in rows.items():
        cells = [
            f"{row['ttft_mean_s']:.2f} ± {row['ttft_mean_s spread'] / 2:.2f}",
            *(f"{row[f'ttft_{part}_s']:.2f}" for part in ("p50", "p90", "p99")),
            f"{row['e2e_mean_s']:.2f}",
            f"{row['tok_s']:,.0f}",
            f"{row['goodput']:.3f} ± {row['goodput spread'] / 2:.3f}",
            *(f"{row[stage]:.2f}" for stage in stages),
        ]
        lines.append(f"| {policy} | {' | '.join(cells)} |")
    return lines
