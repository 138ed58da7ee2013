"""Exercise 5: the transfer is asynchronous. Where does its cost hide?

In traffic with nothing to reuse, a tier can only cost: its connector works in every step. In traffic
that hits the CPU tier, requests hold GPU blocks while they wait for the link, and wait for each other
on it.

    python examples/exercises/hidden_cost.py [--quick]
"""

from common import (
    QUICK,
    ClosedLoop,
    Offload,
    SimRequest,
    fleet_of,
    mean,
    prompt,
    random,
    replace,
    run,
    say,
    table,
)  # fmt: skip

REQUESTS = 80 if QUICK else 300
OVERHEADS = {Offload.NONE: 0.0, Offload.NATIVE: 0.2e-3, Offload.LMCACHE_LOCAL: 0.45e-3}


def workload(groups: int, prefix: int, own: int, output: int) -> ClosedLoop:
    generator = random.Random(5)
    requests = [
        SimRequest(number, prompt(generator.randrange(groups) if prefix else 0, prefix, number, own), output)
        for number in range(REQUESTS)
    ]
    return ClosedLoop(requests, 16, 0.002)


def constant_work() -> str:
    """Nothing comes again: what is left is the work in each step."""
    rows, base = [], 0.0
    for offload, overhead_s in OVERHEADS.items():
        fleet = fleet_of(4, 9_271, 41_000, offload)
        free = replace(fleet, latency=fleet.latency.with_overhead(-overhead_s))
        seconds, without = (
            mean(row.e2e_s for row in run(f, workload(1, 0, 2_000, 400)).rows) for f in (fleet, free)
        )
        base = base or seconds
        rows.append(
            (
                offload,
                f"{overhead_s * 1e3:.2f}",
                f"{seconds:.2f}",
                f"{seconds / base - 1:+.1%}",
                f"{without / base - 1:+.1%}",
            )
        )
    return table(("offload", "ms a step", "end to end s", "cost", "were a step as before"), rows)


def link() -> str:
    """Everything comes again, from the CPU tier."""
    rows = []
    for gb_per_s in (40.0, 10.0, 2.0):
        fleet = fleet_of(4, 3_000, 41_000, Offload.NATIVE)
        fleet = replace(fleet, latency=fleet.latency.with_link(gb_per_s * 1e9))
        outcome = run(fleet, workload(30, 12_000, 256, 200))
        hits = sum(row.cpu_hit_tokens for row in outcome.rows)
        transfer_s = hits * fleet.kv_bytes_per_token / (gb_per_s * 1e9) / len(outcome.rows)
        rows.append(
            (
                f"{gb_per_s:g}", f"{mean(row.ttft_s for row in outcome.rows):.2f}", f"{transfer_s:.3f}",
                f"{hits / sum(row.prompt_tokens for row in outcome.rows):.0%}",
                f"{transfer_s * len(outcome.rows) / max(row.end_s for row in outcome.rows) / 4:.0%}",
            )
        )  # fmt: skip
    return table(("GB/s for a GPU", "TTFT s", "of it transfer s", "CPU hits", "link busy"), rows)


def main() -> None:
    say(
        "Prompts that nobody shares, 400 tokens out:", "", constant_work(), "",
        "30 prefixes of 12,000 tokens that the GPU tiers cannot hold:", "", link(), "",
        "Not modelled: stores from GPU to host take memory bandwidth, and the host's LRU takes CPU time.",
    )  # fmt: skip


if __name__ == "__main__":
    main()
