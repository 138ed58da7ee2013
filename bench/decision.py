"""CPU time of one decision of the whole core, from the bytes of a 120 KB chat body to the receipt.

    python bench/decision.py [--endpoints 64 512] [--requests 2000] [--json]

The core is composed from config/tiered-prefix-cpu.yaml. Prompts share 90 % with one of 64 texts and differ in
what follows. "decision" is opening, parsing, hashing, matching, scoring, picking, claiming and keeping the
receipt, mean µs, with new loads scraped from one endpoint in 40 before each: that many answer between two
requests at 200 requests a second and a scrape each 200 ms. "kept" is the same with no scrape between. "whole
life" adds what the answer costs the core: head, first byte, end. "longest step" is the longest piece, ticks
of upkeep included, that lets no other request in. The garbage collector runs as it does in the server.
"""

import argparse
import gc
import json
import random
import time
from pathlib import Path

from epp.app.collector import calm_collector
from epp.compose import Core, CoreOptions, compose
from epp.config import load_config
from epp.director import EndReason, RequestHead
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics
from epp.response.types import Usage

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config/tiered-prefix-cpu.yaml"
BODY_BYTES = 120_000
GROUPS = 64
SHARED = 0.9
WORDS = ("cache", "prefix", "router", "block", "tier", "token", "endpoint", "prompt", "answer", "score")
RATE = 200.0  # requests in a second of the core's clock
SCRAPED = 1 / 40  # of the endpoints, between two requests
TICK_EVERY = 20  # requests


def text(size: int, rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(size // 7))


def bodies(count: int) -> list[bytes]:
    rng = random.Random(1)
    shared = [text(int(BODY_BYTES * SHARED), rng) for _ in range(GROUPS)]
    rest = text(int(BODY_BYTES * (1 - SHARED)), rng)

    def body(number: int) -> bytes:
        messages = [
            {"role": "system", "content": rng.choice(shared)},
            {"role": "user", "content": f"Question {number}: {rest}"},
        ]
        return json.dumps({"model": "m", "messages": messages, "max_tokens": 64}).encode()

    return [body(number) for number in range(count)]


def core_of(endpoints: int) -> Core:
    config = load_config(CONFIG.read_text(), CONFIG.name)
    core = compose(config, CoreOptions(seed=1, timer=time.perf_counter))
    specs = [parse_endpoint(f"http://10.0.{n // 250}.{n % 250 + 1}:8000") for n in range(endpoints)]
    core.upkeep.sync_endpoints(specs, 0.0)
    scrape(core, random.Random(2), 1.0, 0.0)
    return core


def scrape(core: Core, rng: random.Random, share: float, now: float) -> None:
    """Tell the core of new loads at a share of the endpoints."""
    for endpoint in core.table.pool.endpoints if share else ():
        if rng.random() < share:
            metrics = EndpointMetrics(waiting=float(rng.randrange(4)), kv_usage=rng.random())
            core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, now)


class Steps:
    """CPU time of this thread, step by step, in ns."""

    def __init__(self) -> None:
        self.longest = 0
        self.total = 0

    def __call__(self, step, *arguments, **named):
        began = time.thread_time_ns()
        result = step(*arguments, **named)
        took = time.thread_time_ns() - began
        self.total += took
        self.longest = max(self.longest, took)
        return result


def decide(core: Core, body: bytes, now: float, steps: Steps):
    """To the receipt."""
    director = core.director
    exchange = steps(director.open, RequestHead("r", "POST", "/v1/chat/completions"), now)
    preparing = director.prepare(exchange, body, now)
    done = object()
    while steps(next, preparing, done) is not done:
        pass
    steps(director.pick, exchange, now)
    return exchange


def answer(core: Core, exchange, body: bytes, now: float, steps: Steps) -> None:
    director = core.director
    steps(director.on_response_head, exchange, 200, now)
    steps(director.on_first_byte, exchange, now)
    usage = Usage(len(body) // 4, 64, 0)
    steps(director.on_end, exchange, EndReason.COMPLETE, now, usage=usage)


def measure(endpoints: int, requests: list[bytes], scraped: float) -> dict[str, float]:
    """Means over the last three quarters of the requests."""
    core, rng, steps = core_of(endpoints), random.Random(3), tuple(Steps() for _ in range(3))
    warm = len(requests) // 4
    calm_collector()
    for number, body in enumerate(requests):
        if number == warm:
            steps = tuple(Steps() for _ in range(3))
        deciding, answering, keeping = steps
        now = number / RATE
        scrape(core, rng, scraped, now)
        exchange = decide(core, body, now, deciding)
        answer(core, exchange, body, now, answering)
        if number % TICK_EVERY == 0:
            keeping(core.upkeep.tick, now)
    counted = len(requests) - warm
    return {
        "decision_us": deciding.total / counted / 1000,
        "life_us": (deciding.total + answering.total) / counted / 1000,
        "longest_us": max(each.longest for each in steps) / 1000,
    }


def costs(endpoints: int, requests: list[bytes]) -> dict[str, float]:
    kept = measure(endpoints, requests, 0.0)
    return {**measure(endpoints, requests, SCRAPED), "kept_us": kept["decision_us"]}


def repeat(endpoints: int, decisions: int) -> None:
    """Whole lives on a fixed set of bodies and nothing else, for counting instructions.

    Without the garbage collector: whether a full collection falls among so few requests is chance.
    """
    gc.disable()
    core, requests, steps = core_of(endpoints), bodies(8), Steps()
    for number in range(decisions):
        body = requests[number % len(requests)]
        answer(core, decide(core, body, number / RATE, steps), body, number / RATE, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--endpoints", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    parser.add_argument("--repeat", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.repeat is not None:
        repeat(options.endpoints[0], options.repeat)
        return
    requests = bodies(options.requests)
    found = {count: costs(count, requests) for count in options.endpoints}
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'endpoints':>10}{'decision':>10}{'kept':>8}{'whole life':>12}{'longest step':>14}   CPU µs")
    for count, row in found.items():
        print(
            f"{count:>10}{row['decision_us']:>10.0f}{row['kept_us']:>8.0f}{row['life_us']:>12.0f}{row['longest_us']:>14.0f}"
        )


if __name__ == "__main__":
    main()
