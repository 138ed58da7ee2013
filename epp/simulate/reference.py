"""Published benchmark tables beside what the simulator makes of them, with the error of every cell.

Nothing is fitted to the tables beyond what docs/simulation.md says: step times come from kernels, sizes and
weights from the guides.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from epp.engine import GPUS, MODELS, kernel_latency, read_config
from epp.simulate.fleet import Fleet, Offload
from epp.simulate.outcome import Outcome, Summary, summarise
from epp.simulate.policies import load_policy
from epp.simulate.processes import in_processes
from epp.simulate.runner import simulate
from epp.simulate.shared_prefix import SharedPrefix, Stage, closed_loop, ladder
from epp.simulate.workload import Workload

__all__ = ["METRICS", "REFERENCES", "Cell", "Reference", "Row", "cells_of", "run_reference", "seed_fleet"]

METRICS: Final = ("ttft_mean_s", "ttft_p90_s", "e2e_mean_s", "e2e_p90_s", "throughput_tok_s")

INFLATION: Final = 1.053  # inference-perf before May 2026: real prompt tokens over configured ones
COUNTED: Final = 0.94  # of generated tokens, by a client that encodes the text again
# Offload before vLLM 0.12 moved fragments of 8 to 72 KB, 4 to 5 times slower than the 40 GB/s of later.
FRAGMENTED_LINK_BYTES_PER_S: Final = 10e9


@dataclass(frozen=True, slots=True)
class Row:
    """One published row. `published` is by metric, `also` other published versions of a metric.

    `stage` is the rate it belongs to in a ladder; None: the whole run.
    """

    table: str
    row: str
    published: Mapping[str, float]
    fleet: Fleet
    policy: str
    stage: int | None = None
    also: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference:
    """A published benchmark: rows, and how their workload is made from a seed."""

    name: str
    rows: tuple[Row, ...]
    workload: Callable[[Row, int], Workload]


@dataclass(frozen=True, slots=True)
class Cell:
    """One number; `error` is (simulated - published) / published, `published_also` another version of it."""

    table: str
    row: str
    metric: str
    published: float
    simulated: float
    error: float
    published_also: float | None = None


def _qwen_fleet(gpu_tokens: int, offload: Offload, cpu_tokens: int = 0) -> Fleet:
    shape = read_config(MODELS["qwen3-32b"], "qwen3-32b")
    return Fleet(
        engines=8,
        gpu_tokens=gpu_tokens,
        latency=kernel_latency(shape, GPUS["h100"], 2),
        kv_bytes_per_token=shape.kv_bytes_per_token() // 2,
        offload=offload,
        cpu_tokens=cpu_tokens,
        model="Qwen/Qwen3-32B",
        output_counted=COUNTED,
    )


def seed_fleet(offload: Offload) -> Fleet:
    """8 engines of 2 H100 with 9,271 GPU blocks; 41,000 CPU blocks of native offload, 200 GB of LMCache."""
    cpu_tokens = {Offload.NONE: 0, Offload.NATIVE: 41_000 * 16}.get(offload, 763_000)
    fleet = _qwen_fleet(9_271 * 16, offload, cpu_tokens)
    return replace(fleet, latency=fleet.latency.with_link(FRAGMENTED_LINK_BYTES_PER_S))


def _published(*values: float) -> Mapping[str, float]:
    return MappingProxyType(dict(zip(METRICS, values, strict=True)))


_Rows = tuple[tuple[Offload, tuple[float, ...], Mapping[str, float]], ...]


def _seed_rows() -> Iterator[Row]:
    none, native, lmcache = Offload.NONE, Offload.NATIVE, Offload.LMCACHE_LOCAL
    high: _Rows = (
        (none, (9.0, 20.9, 37.8, 49.7, 38_534.8), {}),
        (native, (6.7, 20.2, 30.9, 44.2, 46_751.0), {"ttft_p90_s": 15.9, "e2e_p90_s": 40.0}),
        (lmcache, (6.5, 18.8, 30.8, 43.0, 46_910.6), {}),
    )
    low: _Rows = (
        (none, (0.12, 0.09, 18.4, 19.6, 23_389.6), {}),
        (native, (0.13, 0.11, 18.6, 20.6, 23_032.6), {}),
        (lmcache, (0.15, 0.10, 18.9, 19.6, 22_772.5), {}),
    )
    names = {none: "HBM only", native: "CPU offload", lmcache: "LMCache"}
    for table, rows in (("high cache", high), ("low cache", low)):
        for offload, values, also in rows:
            policy = "reference-baseline" if offload is none else "reference-offload"
            yield Row(table, names[offload], _published(*values), seed_fleet(offload), policy, also=also)


def _seed_workload(row: Row, seed: int) -> Workload:
    system = 30_000 if row.table == "high cache" else 8_000
    data = SharedPrefix(45, 10, system, 256, 1_024, INFLATION)
    return closed_loop(data, requests=2_700, concurrency=45, seed=seed)


_LADDER_RATES: Final = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0)


def _ladder_rows() -> Iterator[Row]:
    none, native = Offload.NONE, Offload.NATIVE
    tables = (
        ("HBM only", none, "llm-d-baseline", (
            (5, (1.62, 2.65, 11.98, 21.60, 74_639)), (10, (8.08, 16.61, 26.28, 32.60, 122_388)),
            (20, (43.67, 78.13, 62.29, 92.14, 114_663)), (40, (115.57, 206.39, 134.78, 223.93, 115_645)),
        )),
        ("GPU + CPU", native, "llm-d-tiered", (
            (5, (1.17, 1.79, 11.49, 20.25, 82_880)), (10, (0.41, 1.31, 6.97, 9.23, 167_028)),
            (20, (0.89, 2.66, 9.03, 11.22, 300_749)), (40, (25.38, 48.14, 33.95, 56.29, 331_213)),
        )),
    )  # fmt: skip
    for table, offload, policy, rows in tables:
        # 298,000 tokens a server, and 200 GiB of 256 KiB a token.
        fleet = replace(_qwen_fleet(298_000, offload, 819_200), output_counted=1.0)
        for rate, values in rows:
            stage = _LADDER_RATES.index(float(rate))
            yield Row(table, f"{rate} QPS", _published(*values), fleet, policy, stage)


def _ladder_workload(_row: Row, seed: int) -> Workload:
    data = SharedPrefix(250, 5, 16_000, 256, 256)
    stages = tuple(Stage(rate, 60.0, 60.0) for rate in _LADDER_RATES)
    return ladder(data, stages, seed)


def _references() -> Mapping[str, Reference]:
    seed = Reference("seed", tuple(_seed_rows()), _seed_workload)
    rates = Reference("llm-d-5-40qps", tuple(_ladder_rows()), _ladder_workload)
    return MappingProxyType({reference.name: reference for reference in (seed, rates)})


REFERENCES: Final = _references()


def metric_values(summary: Summary) -> dict[str, float]:
    """The published metrics of a summary."""
    return {
        "ttft_mean_s": summary.ttft.mean,
        "ttft_p90_s": summary.ttft.p90,
        "e2e_mean_s": summary.e2e.mean,
        "e2e_p90_s": summary.e2e.p90,
        "throughput_tok_s": summary.total_tok_s,
    }


def run_reference(
    reference: Reference,
    seeds: Sequence[int],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    *,
    jobs: int = 1,
) -> list[Cell]:
    """Every cell, means over `seeds`, from runs in `jobs` processes; `progress` is told (done, in all)."""
    keys = list(dict.fromkeys(_run_key(row) for row in reference.rows))
    tasks = [(reference.name, key, seed) for key in keys for seed in seeds]
    done = {}
    for task, outcome in zip(tasks, in_processes(_run, tasks, jobs), strict=True):
        done[task] = outcome
        progress(len(done), len(tasks))
    return [
        cell
        for row in reference.rows
        for cell in cells_of(row, [done[reference.name, _run_key(row), seed] for seed in seeds])
    ]


def _run(task: tuple[str, tuple[str, str], int]) -> Outcome:
    name, key, seed = task
    reference = REFERENCES[name]
    row = next(row for row in reference.rows if _run_key(row) == key)
    return simulate(row.fleet, load_policy(row.policy), reference.workload(row, seed), seed=seed)


def _run_key(row: Row) -> tuple[str, str]:
    """Rows that are stages of one ladder share a run."""
    return row.table, row.row if row.stage is None else ""


def cells_of(row: Row, outcomes: Sequence[Outcome]) -> Iterator[Cell]:
    """The cells of one row."""
    values = [metric_values(summarise(outcome, stage=row.stage)) for outcome in outcomes]
    for metric in METRICS:
        simulated = statistics.fmean(value[metric] for value in values)
        published = row.published[metric]
        error = (simulated - published) / published
        yield Cell(row.table, row.row, metric, published, simulated, error, row.also.get(metric))
