"""CPU time of the director for one request, with and without a shadow configuration.

    python bench/shadow.py [--endpoints N] [--requests N]

A request is opened, parsed, hashed, picked, answered and ended; prompts of 16 KB share half with others.
Rows, in µs of this thread a request: "none" without a shadow, "same" with the live configuration as its own
shadow, "other block" with one whose blocks are of another size, so that prompts are hashed twice.
"""

import argparse
import gc
import json
import random
import time

from epp.compose import Core, CoreOptions, compose
from epp.config import load_config
from epp.config.builtin import builtin_config
from epp.director.types import EndReason, RequestHead
from epp.endpoints.spec import parse_endpoint
from epp.response.types import Usage

WORDS = ("cache", "prefix", "router", "block", "tier", "token", "endpoint", "prompt", "answer", "score")
ROUNDS = 5


def bodies(count: int) -> list[bytes]:
    rng = random.Random(1)

    def text(size: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(size // 7))

    systems = [text(8_000) for _ in range(20)]
    return [
        json.dumps({"model": "m", "prompt": f"{rng.choice(systems)} {text(8_000)}"}).encode()
        for _ in range(count)
    ]


def core_of(shadow: str | None, endpoints: int) -> Core:
    config = load_config(builtin_config())
    core = compose(
        config, CoreOptions(seed=1, timer=time.thread_time), shadow=load_config(shadow) if shadow else None
    )
    core.upkeep.sync_endpoints(
        [parse_endpoint(f"10.0.{n // 250}.{n % 250 + 1}:8000") for n in range(endpoints)], 0.0
    )
    return core


def serve(core: Core, body: bytes, now: float) -> None:
    director = core.director
    exchange = director.open(RequestHead("r", "POST", "/v1/completions"), now)
    for _ in director.prepare(exchange, body, now):
        pass
    director.pick(exchange, now)
    director.on_response_head(exchange, 200, now)
    director.on_first_byte(exchange, now)
    director.on_end(exchange, EndReason.COMPLETE, now, usage=Usage(len(body) // 4, 64, 0))
    core.upkeep.tick(now)


def measure(core: Core, requests: list[bytes]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.thread_time()
        for number, body in enumerate(requests):
            serve(core, body, number / 100)
        best = min(best, time.thread_time() - started)
    return best / len(requests) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoints", type=int, default=16)
    parser.add_argument("--requests", type=int, default=400)
    arguments = parser.parse_args()
    requests = bodies(arguments.requests)
    same = builtin_config()
    other = same.replace("tier: ", "blockSize: 512\n    tier: ")
    gc.disable()
    print(f"{arguments.endpoints} endpoints, µs a request")
    for name, shadow in (("none", None), ("same", same), ("other block", other)):
        core = core_of(shadow, arguments.endpoints)
        total = measure(core, requests)
        tally = core.shadow_tally
        decided = sum(tally.requests.values())
        alone = tally.seconds / decided * 1e6 if decided else 0.0
        print(f"{name:12} {total:7.0f}   deciding twice {alone:5.0f}   {tally.requests}")


if __name__ == "__main__":
    main()
