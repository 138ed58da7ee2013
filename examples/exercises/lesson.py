"""The lesson's own comparison, with batching, queues and memory: what does each tier avoid, at equal HBM?

200 requests, prompts of 2k, 4k and 8k tokens from six prefixes, answers of 150 to 400 tokens, four
servers with 900 blocks of GPU memory each. The lesson's toy never reads that constant, serves one
request after another and finds LMCache slower than nothing at all. It also routes at random, as the
first rows do.

    python examples/exercises/lesson.py [--quick]
"""

from itertools import product

from common import (
    QUICK,
    ClosedLoop,
    Offload,
    SimRequest,
    computed_tokens,
    fleet_of,
    mean,
    prompt,
    random,
    run,
    say,
    table,
)  # fmt: skip

REQUESTS = 80 if QUICK else 200
GPU_BLOCKS, CPU_BLOCKS = 900, 8_000


def workload() -> ClosedLoop:
    generator = random.Random(18)
    requests = []
    for number in range(REQUESTS):
        prefix = generator.randrange(6)
        segments = prompt(prefix, 2_048 << prefix % 3, number, 64)
        requests.append(SimRequest(number, segments, generator.randint(150, 400)))
    return ClosedLoop(requests, clients=8, gap_s=0.002)


def main() -> None:
    rows, base = [], 0.0
    for policy, offload in product(("random", None), Offload):
        outcome = run(fleet_of(4, GPU_BLOCKS, CPU_BLOCKS, offload), workload(), policy=policy)
        asked = sum(row.prompt_tokens for row in outcome.rows)
        computed = computed_tokens(outcome.rows)
        avoided = sum(row.gpu_hit_tokens + row.cpu_hit_tokens > row.prompt_tokens / 2 for row in outcome.rows)
        total_s = max(row.end_s for row in outcome.rows)
        base = base or total_s
        rows.append(
            (
                policy or "predicted cost",
                offload,
                f"{total_s:.1f}",
                f"{mean(row.ttft_s for row in outcome.rows):.3f}",
                f"{computed:,}",
                f"{1 - computed / asked:.1%}",
                f"{avoided} of {REQUESTS}",
                f"{base / total_s:.2f}x",
            )
        )
    say(
        f"{REQUESTS} requests on 4 servers with {GPU_BLOCKS} GPU blocks each, the same for every row",
        "",
        table(
            (
                "routing",
                "offload",
                "total s",
                "TTFT s",
                "tokens computed",
                "avoided",
                "prefills avoided",
                "speed-up",
            ),
            rows,
        ),
    )


if __name__ == "__main__":
    main()
