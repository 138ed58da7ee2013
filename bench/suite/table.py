"""The results as Markdown: the bars with ratios, and every stack's figures. Pure."""

from collections.abc import Iterable, Sequence

from .samples import Samples
from .stats import spread

__all__ = ["bars_table", "facts_list", "markdown", "remarks", "stacks_table"]

COLUMNS = (
    ("µs/req 1 KB", "1kb", "cpu_us", 1.0),
    ("µs/req 120 KB", "120kb", "cpu_us", 1.0),
    ("µs/chunk", "sse512", "cpu_us_chunk", 1.0),
    ("chunk delay p99 ms", "sse512", "chunk_delay_p99_us", 1e-3),
    ("TTFT max ms", "sse512", "ttft_max_us", 1e-3),
    ("200/s p50 ms", "rate200", "latency_p50_us", 1e-3),
    ("200/s p99 ms", "rate200", "latency_p99_us", 1e-3),
    ("ms/req 400 KB", "heavy", "cpu_us", 1e-3),
    ("MiB start", "start", "idle_mib", 1.0),
    ("MiB after", "after", "after_mib", 1.0),
    ("start s", "start", "ready_s", 1.0),
)
NOTHING = "-"
STACK_ORDER = ("epp", "epp-", "nginx", "direct")


def number(value: object) -> str:
    """Three significant digits, thousands apart; a dash for nothing."""
    if value is None:
        return NOTHING
    if not isinstance(value, int | float):
        return str(value)
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def ratio(value: float, other: float | None) -> str:
    return f"{value / other:.2f}" if other else NOTHING


def bars_table(bars: Sequence[dict], peers: dict[str, str]) -> list[str]:
    """A row a bar: what it is, may be, and how it compares."""
    rows = []
    for bar in bars:
        values = bar["peer_values"]
        aware = [values[name] for name, mode in peers.items() if mode == "cache_aware" and values.get(name)]
        best = min(aware, default=None)
        rows.append(
            [
                bar["name"],
                f"{bar['measure']}, {bar['unit']}",
                number(bar["value"]),
                f"≤ {number(bar['bar'])}" if not isinstance(bar["bar"], str) else bar["bar"],
                "yes" if bar["met"] else "**no**",
                number(values.get("nginx")),
                ratio(bar["value"], values.get("nginx")),
                number(best),
                ratio(bar["value"], best),
            ]
        )
    header = ["#", "measure", "epp", "bar", "met", "nginx", "epp/nginx", "best cache-aware peer", "epp/peer"]
    return _table(header, rows)


def remarks(bars: Sequence[dict]) -> list[str]:
    """What stands behind a bar: its parts and its note; an empty line after them."""
    lines = []
    for bar in bars:
        parts = ", ".join(f"{name} {number(value)}" for name, value in bar.get("parts", {}).items())
        said = "; ".join(each for each in (parts, bar.get("note", "")) if each)
        if said:
            lines.append(f"- {bar['name']}: {said}.")
    return [*lines, ""] if lines else []


def stack_order(name: str) -> tuple[int, str]:
    for place, start in enumerate(STACK_ORDER):
        if name == start or (start.endswith("-") and name.startswith(start)):
            return place, name
    return len(STACK_ORDER), name


def stacks_table(samples: Samples) -> list[str]:
    """A row a stack with the medians of its runs."""
    names = sorted({name for workload in samples.table for name in samples.stacks(workload)}, key=stack_order)
    rows = []
    for name in names:
        cells = [samples.median(workload, name, metric) for _, workload, metric, _ in COLUMNS]
        scaled = [
            None if cell is None else cell * unit for cell, (*_, unit) in zip(cells, COLUMNS, strict=True)
        ]
        if any(value for value in scaled):
            rows.append([name, *map(number, scaled)])
    return _table(["stack", *(title for title, *_ in COLUMNS)], rows)


def facts_list(results: dict) -> list[str]:
    """What it was measured on, when, and how widely runs differed."""
    machine, versions, settings = results["machine"], results["versions"], results["settings"]
    epp = ".".join(map(str, versions["epp python"]))
    system = f"{machine['memory_gib']} GiB, {machine['system']}, Linux {machine['kernel']}"
    peers = ", ".join(f"{name} {version}" for name, version in versions["peers"].items())
    lines = [
        f"- {results['measured']}, {settings['runs']} paired runs; medians.",
        f"- {machine['processor']}, {machine['cores']} cores, {system}.",
        f"- epp on CPython {epp}; nginx {versions['nginx']}; {peers}.",
    ]
    if "measured in parts" in settings:
        lines.append(f"- Measured in parts: {', '.join(settings['measured in parts'])}.")
    lines += [f"- Left out: {name}: {reason}." for name, reason in results["skipped"].items()]
    wide = widest(Samples(results["samples"]))
    if wide:
        lines.append(f"- Runs of epp differed by at most ± {wide[0]:.0%} in CPU ({wide[1]}).")
    return lines


def widest(samples: Samples) -> tuple[float, str] | None:
    """The largest spread of epp's CPU over a workload's runs, and the workload."""
    found = [
        (spread(samples.values(name, "epp", "cpu_us")) or 0.0, name)
        for name in ("1kb", "120kb", "sse512", "heavy")
    ]
    return max(found) if any(width for width, _ in found) else None


def markdown(results: dict) -> str:
    """The whole page."""
    met = sum(bar["met"] for bar in results["bars"])
    lines = [
        f"{met} of {len(results['bars'])} bars are met.",
        "",
        *bars_table(results["bars"], results["peers"]),
        "",
        *remarks(results["bars"]),
        "Every stack, medians. CPU is user and system time of the whole process tree.",
        "",
        *stacks_table(Samples(results["samples"])),
        "",
        *facts_list(results),
    ]
    return "\n".join(lines) + "\n"
