"""Exercise 1: from which HBM utilisation on does LMCache pay?

Not utilisation decides but what is wanted again: R, the prompt tokens that come more than once, over
the KV tokens of all GPU tiers. The GPU tiers are made smaller and smaller under the same traffic.

    python examples/exercises/hbm_utilisation.py [--quick]
"""

from common import QUICK, ClosedLoop, Offload, SimRequest, fleet_of, mean, prompt, random, run, say, table

ENGINES, GROUPS, PREFIX, CLIENTS = 4, 24, 12_000, 16
REQUESTS = 150 if QUICK else 600
FACTORS = (4.0, 1.0) if QUICK else (8.0, 4.0, 2.0, 1.0, 0.6)
BLOCKS = 4_000


def workload() -> ClosedLoop:
    generator = random.Random(1)
    requests = [
        SimRequest(number, prompt(generator.randrange(GROUPS), PREFIX, number, 256), 256)
        for number in range(REQUESTS)
    ]
    return ClosedLoop(requests, CLIENTS, 0.002)


def in_use_p99(outcome, fleet) -> float:
    """KV tokens of live requests at P99 over time, over HBM; a shared prefix counts for each of them."""
    changes = sorted(
        change
        for row in outcome.rows
        for change in ((row.first_token_s, row.prompt_tokens), (row.end_s, -row.prompt_tokens))
    )
    end, held, before, spans = changes[-1][0], 0, 0.0, []
    for when, tokens in changes:
        spans.append((held, when - before))
        held, before = held + tokens, when
    left = 0.01 * end
    for tokens, seconds in sorted(spans, reverse=True):
        left -= seconds
        if left <= 0:
            return tokens / (fleet.gpu_tokens * fleet.engines)
    return 0.0


def main() -> None:
    rows, pays = [], []
    for factor in FACTORS:
        found = {}
        for offload in Offload:
            fleet = fleet_of(ENGINES, round(BLOCKS * factor), 40_000, offload)
            outcome = run(fleet, workload())
            found[offload] = outcome, mean(row.e2e_s for row in outcome.rows)
            if offload is Offload.NONE:
                used = in_use_p99(outcome, fleet)
        ratio = GROUPS * PREFIX / (fleet.gpu_tokens * ENGINES)
        gains = {offload: 1 - seconds / found[Offload.NONE][1] for offload, (_, seconds) in found.items()}
        pays += [ratio] if max(gains.values()) >= 0.02 else []
        rows.append((f"{ratio:.2f}", f"{used:.0%}", *(f"{gains[tier]:+.1%}" for tier in list(Offload)[1:])))
    say(
        f"{GROUPS} prefixes of {PREFIX:,} tokens, {CLIENTS} clients, {ENGINES} servers; gains end to end",
        "",
        table(("R", "wanted at P99, of HBM", "native", "lmcache-local", "lmcache-shared"), rows),
        "",
        f"A tier pays from about R = {min(pays):.2f} on; below, its work in each step costs too much."
        if pays
        else "No tier pays at any R that was tried.",
    )


if __name__ == "__main__":
    main()
