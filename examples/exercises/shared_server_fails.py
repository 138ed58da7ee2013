"""Exercise 3: the shared cache server dies. What happens, and what should be there to fall back on?

Half-way through, the pool that all servers share is gone. The same traffic with a tier in every host,
which no single failure takes away, and with no tier at all.

    python examples/exercises/shared_server_fails.py [--quick]
"""

from common import QUICK, ClosedLoop, Offload, SimRequest, fleet_of, mean, prompt, random, run, say, table

from epp.simulate.events import Event, EventKind

ENGINES, GROUPS, PREFIX, CLIENTS = 4, 40, 12_000, 16
REQUESTS = 300 if QUICK else 800


def workload() -> ClosedLoop:
    generator = random.Random(3)
    requests = [
        SimRequest(number, prompt(generator.randrange(GROUPS), PREFIX, number, 256), 256)
        for number in range(REQUESTS)
    ]
    return ClosedLoop(requests, CLIENTS, 0.002)


def halves(rows, when_s: float):
    early = [row for row in rows if row.arrival_s < when_s]
    late = [row for row in rows if row.arrival_s >= when_s]
    return [f"{mean(row.ttft_s for row in part):.2f} s, {hit_share(part):.0%}" for part in (early, late)]


def hit_share(rows) -> float:
    return sum(row.cpu_hit_tokens for row in rows) / max(1, sum(row.prompt_tokens for row in rows))


def main() -> None:
    shared = fleet_of(ENGINES, 4_000, 40_000, Offload.LMCACHE_SHARED)
    whole = run(shared, workload())
    when_s = max(row.end_s for row in whole.rows) / 2
    dead = [Event(when_s, EventKind.CPU_TIER_OFF, engine) for engine in range(ENGINES)]
    events = {
        "shared, lives": whole,
        "shared, dies": run(shared, workload(), dead),
        "native in each host": run(fleet_of(ENGINES, 4_000, 40_000, Offload.NATIVE), workload()),
        "no tier": run(fleet_of(ENGINES, 4_000, 40_000, Offload.NONE), workload()),
    }
    rows = [(name, *halves(outcome.rows, when_s), outcome.failed) for name, outcome in events.items()]
    lives, dies = (
        mean(row.ttft_s for row in events[name].rows if row.arrival_s >= when_s)
        for name in ("shared, lives", "shared, dies")
    )
    say(
        f"{GROUPS} prefixes of {PREFIX:,} tokens on {ENGINES} servers; the pool dies at {when_s:.0f} s",
        "",
        table(("", f"TTFT and CPU hits before {when_s:.0f} s", "after", "failed"), rows),
        "",
        f"No request fails: prompts are computed again, and TTFT is {dies / lives:.1f} times as long.",
        "A tier in each host does not fail with the others; a second cache server costs memory.",
    )


if __name__ == "__main__":
    main()
