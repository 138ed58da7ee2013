"""What the exercises share: a fleet in figures, a run, and a table."""

import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # run from a checkout, whether the package is installed or not
    sys.path.insert(0, str(ROOT))

from epp.engine import GPUS, MODELS, kernel_latency, read_config  # noqa: E402
from epp.simulate.fleet import Fleet, Offload  # noqa: E402
from epp.simulate.outcome import Outcome, RequestRow  # noqa: E402
from epp.simulate.policies import load_policy  # noqa: E402
from epp.simulate.prompts import Segment, identity  # noqa: E402
from epp.simulate.runner import simulate  # noqa: E402
from epp.simulate.workload import ClosedLoop, OpenLoop, SimRequest, Workload  # noqa: E402

QUICK = "--quick" in sys.argv  # smaller, for a first look and for the tests
SHAPE = read_config(MODELS["qwen3-32b"], "qwen3-32b")
LATENCY = kernel_latency(SHAPE, GPUS["h100"], 2)
TOKEN_BYTES = SHAPE.kv_bytes_per_token()


def fleet_of(engines: int, gpu_blocks: int, cpu_blocks: int, offload: Offload) -> Fleet:
    """Servers of two H100 with Qwen3-32B; blocks of 16 tokens."""
    return Fleet(
        engines=engines,
        gpu_tokens=gpu_blocks * 16,
        cpu_tokens=cpu_blocks * 16,
        latency=LATENCY,
        kv_bytes_per_token=TOKEN_BYTES // 2,
        offload=offload,
        model="qwen3-32b",
    )


def policy_for(offload: Offload) -> str:
    """Routing by predicted cost; without a CPU tier it must not count on hits there."""
    return "ttft-cost-hbm" if offload is Offload.NONE else "ttft-cost"


def run(fleet: Fleet, workload: Workload, events=(), policy: str | None = None, seed: int = 1) -> Outcome:
    """The shipped router on that fleet."""
    config = load_policy(policy or policy_for(fleet.offload))
    return simulate(fleet, config, workload, seed=seed, events=events)


def prompt(group: object, shared_tokens: int, own: object, own_tokens: int) -> tuple[Segment, ...]:
    """A prefix that a group shares, and a part of its own."""
    head = (Segment(identity("prefix", group), shared_tokens),) if shared_tokens else ()
    return (*head, Segment(identity("own", own), shared_tokens + own_tokens))


def computed_tokens(rows: Iterable[RequestRow]) -> int:
    """Prompt tokens that no tier held."""
    return sum(row.prompt_tokens - row.gpu_hit_tokens - row.cpu_hit_tokens for row in rows)


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned, the first to the left."""
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


__all__ = [
    "GPUS", "LATENCY", "MODELS", "QUICK", "SHAPE", "TOKEN_BYTES", "ClosedLoop", "Offload", "OpenLoop",
    "SimRequest", "computed_tokens", "fleet_of", "kernel_latency", "mean", "policy_for", "prompt", "random",
    "read_config", "replace", "run", "say", "table",
]  # fmt: skip
