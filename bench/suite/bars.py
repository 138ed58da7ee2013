"""The bars: what each measure may be, what it is, and whether it is met. Pure.

A bar is `{name, measure, unit, bar, value, peer_values, met, limits, parts, note}`. `bar` and `value` are
numbers, and smaller is better. Where a bar stands against others it is the strictest of its `limits`, each a
factor and the figure of the same run that it multiplies. `peer_values` has the figures of nginx and of other
routers; null where they have no such thing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .plan import ENDPOINT_COUNTS, PROMPT_SIZES, STREAM_COUNTS
from .samples import Samples
from .stats import growth

__all__ = ["Bar", "Context", "bars_of"]

MIB_512 = 1536.0
FULL_RATE = 2000.0  # pages a second of 100 endpoints each 50 ms
LEADERS_CORES = (35.0, 46.0)
LEADERS_RATE = 98.7
SCRIPTS = ("120kb-chinese", "120kb-chinese-escaped", "120kb-vietnamese", "120kb-vietnamese-escaped")


@dataclass(frozen=True, slots=True)
class Context:
    """`peers`: routers of others, name → mode. `newer_python`: epp ran on CPython 3.12 or newer."""

    samples: Samples
    peers: dict[str, str]
    newer_python: bool

    def best_peer(self, values: dict[str, float | None]) -> float | None:
        """The smallest figure of those that look at prefixes."""
        found = [values[name] for name, mode in self.peers.items() if mode == "cache_aware"]
        return min((value for value in found if value is not None), default=None)

    def others(self, of: Callable[[str], float | None]) -> dict[str, float | None]:
        """The figure of nginx and of every peer; of epp on another CPython too, where it was measured."""
        values = {name: rounded(of(name)) for name in ("nginx", *self.peers)}
        older = {name: rounded(of(name)) for name in self.epps()}
        return {**values, **{name: value for name, value in older.items() if value is not None}}

    def epps(self) -> list[str]:
        found = {stack for workload in self.samples.table for stack in self.samples.stacks(workload)}
        return sorted(name for name in found if name.startswith("epp") and name != "epp")


@dataclass(frozen=True, slots=True)
class Limit:
    """`times` the figure of `against`: what the value may be at most."""

    against: str
    times: float
    figure: float | None

    @property
    def at_most(self) -> float | None:
        return None if self.figure is None else self.times * self.figure


@dataclass(frozen=True, slots=True)
class Bar:
    """See the module's text. `bar` is None, and not met, where what it stands against was not measured."""

    name: str
    measure: str
    unit: str
    bar: float | None
    value: float
    peer_values: dict[str, float | None]
    limits: tuple[Limit, ...] = ()
    parts: dict[str, float | None] | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        return self.bar is not None and self.value <= self.bar

    def as_dict(self) -> dict[str, object]:
        limits = [
            {"against": limit.against, "times": limit.times, "at_most": rounded(limit.at_most)}
            for limit in self.limits
        ]
        found: dict[str, object] = {
            "name": self.name,
            "measure": self.measure,
            "unit": self.unit,
            "bar": "not measured" if self.bar is None else self.bar,
            "value": self.value,
            "peer_values": self.peer_values,
            "met": self.met,
        }
        extras = {"limits": limits, "parts": self.parts, "note": self.note}
        return found | {name: value for name, value in extras.items() if value}


def rounded(value: float | None, digits: int = 4) -> float | None:
    """To so many significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def bars_of(context: Context) -> list[Bar]:
    """Every bar whose measure is there, in the order of their names."""
    makers = (
        _row_1,
        _row_2,
        _row_2b,
        _row_3,
        _row_4,
        _row_5,
        _row_6,
        _row_7,
        _row_8,
        _row_9,
        _row_10,
        _row_11,
    )
    return [bar for make in makers for bar in make(context)]


def _compared(
    context: Context,
    name: str,
    measure: str,
    unit: str,
    of: Callable[[str], float | None],
    factors: tuple[float, float],
) -> Iterable[Bar]:
    """A bar against nginx and the best router of others that looks at prefixes."""
    value = rounded(of("epp"))
    if value is None:
        return
    others = context.others(of)
    limits = (
        Limit("nginx", factors[0], others["nginx"]),
        Limit("best cache-aware peer", factors[1], context.best_peer(others)),
    )
    known = [limit.at_most for limit in limits]
    bar = None if None in known else rounded(min(most for most in known if most is not None))
    yield Bar(name, measure, unit, bar, value, others, limits)


def _fixed(
    context: Context,
    name: str,
    measure: str,
    unit: str,
    of: Callable[[str], float | None],
    most: float,
    parts: dict[str, float | None] | None = None,
    note: str = "",
) -> Iterable[Bar]:
    """A bar that stands by itself."""
    value = rounded(of("epp"))
    if value is not None:
        yield Bar(name, measure, unit, most, value, context.others(of), parts=parts, note=note)


def _median(context: Context, workload: str, metric: str, unit: float = 1.0) -> Callable[[str], float | None]:
    def of(stack: str) -> float | None:
        found = context.samples.median(workload, stack, metric)
        return None if found is None else found * unit

    return of


def _row_1(context: Context) -> Iterable[Bar]:
    cost = _median(context, "1kb", "cpu_us")
    return _compared(context, "1", "CPU a request, 1 KB, 32 connections", "µs", cost, (5.0, 0.75))


def _row_2(context: Context) -> Iterable[Bar]:
    cost = _median(context, "120kb", "cpu_us")
    return _compared(context, "2", "CPU a request, 120 KB, 16 connections", "µs", cost, (4.5, 0.75))


def _row_2b(context: Context) -> Iterable[Bar]:
    def worst(stack: str) -> float | None:
        found = [context.samples.median(workload, stack, "cpu_us") for workload in SCRIPTS]
        return max((value for value in found if value is not None), default=None)

    plain, value = context.samples.median("120kb", "epp", "cpu_us"), worst("epp")
    if value is None:
        return
    parts = {name: rounded(context.samples.median(name, "epp", "cpu_us")) for name in SCRIPTS}
    limit = Limit("row 2", 2.0, plain)
    measure = "CPU a request, 120 KB of Chinese or Vietnamese, plain or escaped: the dearest of the four"
    others = context.others(worst)
    yield Bar("2b", measure, "µs", rounded(limit.at_most), rounded(value) or 0.0, others, (limit,), parts)


def _row_3(context: Context) -> Iterable[Bar]:
    cost = _median(context, "sse512", "cpu_us_chunk")
    return _compared(context, "3", "CPU an SSE chunk, 512 streams, one each 40 ms", "µs", cost, (1.35, 1.0))


def _row_4(context: Context) -> Iterable[Bar]:
    delay = _median(context, "sse512", "chunk_delay_p99_us", 1e-3)
    ttft = _median(context, "sse512", "ttft_max_us", 1e-3)

    def errors(stack: str) -> float | None:
        return context.samples.total("sse512", stack, "errors")

    most = 1.0 if context.newer_python else 1.5
    yield from _fixed(context, "4a", "chunk delay p99, 512 streams, first chunks left out", "ms", delay, most)
    yield from _fixed(context, "4b", "errors, 512 streams, all runs", "errors", errors, 0.0)
    yield from _fixed(
        context, "4c", "time to first chunk of 512 streams started at once: the longest", "ms", ttft, 150.0
    )


def _row_5(context: Context) -> Iterable[Bar]:
    for name, rank, most in (("5a", "p50", 0.5), ("5b", "p99", 1.0)):

        def above(stack: str, metric: str = f"latency_{rank}_us") -> float | None:
            found = context.samples.above("rate200", stack, metric, "direct")
            return None if found is None else found / 1000

        yield from _fixed(
            context, name, f"latency above direct at 200 requests a second, {rank}", "ms", above, most
        )


def _row_6(context: Context) -> Iterable[Bar]:
    rows = (
        (
            "6a",
            "decision for a 120 KB chat body, parse to receipt, mean CPU",
            "decision_us",
            250.0,
            1.0,
            "µs",
        ),
        ("6b", "look-up of a 120 KB prompt in two views, mean CPU", "lookup_us", 5.0, 1.0, "µs"),
        ("6c", "record of a 120 KB prompt in one view with eviction, mean CPU", "record_us", 25.0, 1.0, "µs"),
        ("6d", "longest single step of a decision", "longest_us", 1.0, 1e-3, "ms"),
    )
    for name, measure, metric, most, unit, shown in rows:
        parts = {
            f"{count} endpoints": rounded(_median(context, "decision", f"{metric}_{count}", unit)("epp"))
            for count in (64, 512)
        }

        def worst(stack: str, metric: str = metric, unit: float = unit) -> float | None:
            found = [_median(context, "decision", f"{metric}_{count}", unit)(stack) for count in (64, 512)]
            return max((value for value in found if value is not None), default=None)

        yield from _fixed(
            context, name, f"{measure}; 64 or 512 endpoints, the dearer", shown, worst, most, parts
        )


def _row_7(context: Context) -> Iterable[Bar]:
    size = _median(context, "decision", "bytes_entry_64")
    measure = "index memory an entry and view, 64 endpoints, conversations"
    return _fixed(context, "7", measure, "bytes", size, 50.0)


def _row_8(context: Context) -> Iterable[Bar]:
    def fast(stack: str) -> float | None:
        """At the full rate: pages that came late are paid for too."""
        cores, pages = (context.samples.median("scrape-50ms", stack, name) for name in ("cores", "pages_s"))
        return cores * FULL_RATE / pages if cores is not None and pages else None

    def pages(workload: str) -> dict[str, float | None]:
        return {"pages a second": rounded(context.samples.median(workload, "epp", "pages_s"))}

    idle = _median(context, "scrape-idle", "cores")
    measure = "CPU to scrape 100 endpoints, pages of 72 kB, each 50 ms"
    yield from _fixed(context, "8a", measure, "cores", fast, 0.5, pages("scrape-50ms"))
    measure = "CPU idle at defaults in front of 100 endpoints"
    yield from _fixed(context, "8b", measure, "cores", idle, 0.1, pages("scrape-idle"))


def _row_9(context: Context) -> Iterable[Bar]:
    cost = _median(context, "heavy", "cpu_us", 1e-3)
    value, chunk = rounded(cost("epp")), context.samples.median("sse512", "epp", "cpu_us_chunk")
    if value is None:
        return
    bar = None if chunk is None else rounded(chunk + 4.0)  # 1,000 chunks of so many µs are as many ms
    low, high = (cores / LEADERS_RATE * 1000 for cores in LEADERS_CORES)
    note = f"published for the Go picker: {low:.0f} to {high:.0f} ms (35 to 46 cores for 98.7 requests/s)"
    measure = "CPU a request of 100k tokens (400 KB, 95 % shared) and 1,000 chunks, 100 endpoints"
    yield Bar("9", measure, "ms", bar, value, context.others(cost), note=note)


def _row_10(context: Context) -> Iterable[Bar]:
    idle, after = _median(context, "start", "idle_mib"), _median(context, "after", "after_mib")
    full, ready = _median(context, "full-memory", "full_mib"), _median(context, "start", "ready_s")
    parts = {
        "share of the index's capacity in use": rounded(
            context.samples.median("full-memory", "epp", "fullness")
        )
    }
    yield from _fixed(context, "10a", "proportional memory after start", "MiB", idle, 90.0)
    yield from _fixed(context, "10b", "proportional memory after rows 1 to 5", "MiB", after, 128.0)
    yield from _fixed(
        context, "10c", "proportional memory with 512 endpoints full", "MiB", full, MIB_512, parts
    )
    yield from _fixed(context, "10d", "start to first answer", "s", ready, 1.0)


def _row_11(context: Context) -> Iterable[Bar]:
    rows = (
        ("11a", "endpoints 8 to 512, CPU a request", "endpoints-{}-1kb", ENDPOINT_COUNTS, "cpu_us", 1.0),
        ("11b", "prompt 1 KB to 1 MB, CPU a request", "prompt-{}", PROMPT_SIZES, "cpu_us", 1.1),
        ("11c", "streams 1 to 2,000, CPU a chunk", "streams-{}", STREAM_COUNTS, "cpu_us_chunk", 0.25),
    )
    for name, what, workload, sizes, metric, most in rows:

        def steepest(
            stack: str, workload: str = workload, sizes: tuple[int, ...] = sizes, metric: str = metric
        ) -> float | None:
            points = [(size, context.samples.median(workload.format(size), stack, metric)) for size in sizes]
            return growth([(size, cost) for size, cost in points if cost is not None])

        parts = {f"{n:,}": rounded(context.samples.median(workload.format(n), "epp", metric)) for n in sizes}
        yield from _fixed(
            context, name, f"{what}: steepest growth exponent", "exponent", steepest, most, parts
        )
    stall = _median(context, "stall", "chunk_delay_max_us", 1e-3)
    measure = "longest delay of a chunk while four bodies of 1 MB are in flight"
    yield from _fixed(context, "11d", measure, "ms", stall, 20.0)
