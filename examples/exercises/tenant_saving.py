"""Exercise 2: a system prompt of 6k tokens, asked 200 times an hour: what does a tier save that tenant?

At most a prefill a request. It saves that only where other tenants' prompts evict the prefix from the
GPU tier within the mean gap of 18 seconds; the others' rate is what changes below.

    python examples/exercises/tenant_saving.py [--quick]
"""

from common import (
    LATENCY,
    QUICK,
    TOKEN_BYTES,
    Offload,
    OpenLoop,
    SimRequest,
    computed_tokens,
    fleet_of,
    prompt,
    random,
    run,
    say,
    table,
)  # fmt: skip

from epp.engine import StepLoad

SYSTEM, OWN, OTHERS = 6_000, 100, 8_000
HOURS = 0.1 if QUICK else 0.5
RATES = (0.0, 0.8) if QUICK else (0.0, 0.2, 0.4, 0.8, 1.2)
PER_HOUR = 200


def workload(rate: float) -> OpenLoop:
    """The tenant's requests and, at `rate` a second, others that share nothing. Both come at random."""
    generator = random.Random(6)
    arrivals = []
    for tenant, per_s in ((True, PER_HOUR / 3600), (False, rate)):
        now = generator.expovariate(per_s) if per_s else HOURS * 3600
        while now < HOURS * 3600:
            arrivals.append((now, tenant))
            now += generator.expovariate(per_s)
    return OpenLoop(
        [
            (
                when,
                SimRequest(
                    number,
                    prompt("tenant", SYSTEM, number, OWN) if tenant else prompt("", 0, number, OTHERS),
                    200, session=0 if tenant else 1,
                ),
            )
            for number, (when, tenant) in enumerate(sorted(arrivals))
        ]
    )  # fmt: skip


def main() -> None:
    prefill_s = LATENCY.step_s(StepLoad(SYSTEM, SYSTEM * SYSTEM / 2, 0, 0))
    rows = []
    for rate in RATES:
        requests = workload(rate)
        mine = {request.number for _, request in requests.initial() if request.session == 0}
        computed = {}
        for offload in (Offload.NONE, Offload.NATIVE):
            outcome = run(fleet_of(1, 9_271, 41_000, offload), workload(rate))
            computed[offload] = computed_tokens(row for row in outcome.rows if row.number in mine)
        saved = (computed[Offload.NONE] - computed[Offload.NATIVE]) / HOURS
        seconds = saved / SYSTEM * prefill_s
        rows.append((f"{rate:g}", len(mine), f"{saved:,.0f}", f"{seconds:.0f}", f"{seconds / 3600:.1%}"))
    say(
        f"{SYSTEM:,} tokens take {prefill_s:.2f} s to compute, so {PER_HOUR} hits an hour save at most "
        f"{PER_HOUR * prefill_s:.0f} engine seconds ({PER_HOUR * prefill_s / 3600:.1%} of a server), "
        f"for {SYSTEM * TOKEN_BYTES / 1e9:.2f} GB of host memory.",
        "",
        table(("others/s", "requests", "tokens saved/h", "engine s/h", "of a server"), rows),
    )


if __name__ == "__main__":
    main()
