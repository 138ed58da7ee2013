"""How right the ledger is where nobody shows the ends of requests, in virtual time.

    python -m tests.director.unobserved_accuracy

Poisson arrivals over four endpoints, streamed answers of exponential length; the head of each answer is seen,
its end is not. Printed: requests that are really in flight at an endpoint, and by how many the ledger is wrong,
means over moments 50 ms apart, after a quarter of the time.
"""

import random
import sys
from dataclasses import dataclass

from epp.endpoints.types import EndpointMetrics
from tests.director.core import Pool

TICK_S = 0.05


@dataclass(frozen=True)
class Load:
    """Requests a second, mean seconds of an answer, seconds between two scrapes (None: never)."""

    rate: float
    duration_s: float
    scrape_s: float | None
    total_s: float = 120.0


def accuracy(load: Load, seed: int = 1) -> tuple[float, float]:
    """Mean requests in flight at an endpoint, and the mean of what the ledger is wrong by."""
    rng = random.Random(seed)
    pool = Pool(n=4)
    slots = {e.address: e.slot for e in pool.core.table.pool.endpoints}
    live: list[tuple[float, int]] = []  # end, slot
    truth_sum = error_sum = 0.0
    moments = 0
    next_arrival, next_scrape, now = rng.expovariate(load.rate), load.scrape_s, 0.0
    while now < load.total_s:
        now = round(now + TICK_S, 6)
        while next_arrival <= now:
            live.append(
                (next_arrival + rng.expovariate(1 / load.duration_s), _send(pool, next_arrival, slots))
            )
            next_arrival += rng.expovariate(load.rate)
        live = [(end, slot) for end, slot in live if end > now]
        running = [sum(1 for _, at in live if at == slot) for slot in range(4)]
        if next_scrape is not None and now >= next_scrape:
            next_scrape += load.scrape_s
            _scrape(pool, running, now)
        pool.core.upkeep.tick(now)
        if now > load.total_s / 4:
            truth_sum += sum(running) / 4
            error_sum += sum(abs(a - b) for a, b in zip(running, pool.ledger.requests, strict=True)) / 4
            moments += 1
    return truth_sum / moments, error_sum / moments


def _send(pool: Pool, now: float, slots: dict[str, int]) -> int:
    exchange, target = pool.send(f"{now} " * 20, now, stream=True)
    pool.director.on_response_head(exchange, 200, now)
    pool.director.on_first_byte(exchange, now)
    pool.director.on_unobserved(exchange, now)
    return slots[target.address]


def _scrape(pool: Pool, running: list[int], now: float) -> None:
    for endpoint in pool.core.table.pool.endpoints:
        metrics = EndpointMetrics(running=running[endpoint.slot], waiting=0)
        pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, now)


LOADS = (
    Load(8, 10, 0.2),
    Load(40, 10, 0.2),
    Load(40, 2, 0.2),
    Load(40, 10, 1.0),
    Load(40, 10, None),
    Load(40, 2, None),
)


def main() -> None:
    lines = [f"{'requests/s':>10} {'mean answer':>12} {'scrape every':>13} {'in flight':>10} {'wrong by':>9}"]
    for load in LOADS:
        truth, error = accuracy(load)
        every = "never" if load.scrape_s is None else f"{load.scrape_s:g} s"
        lines.append(f"{load.rate:10g} {load.duration_s:10g} s {every:>13} {truth:10.1f} {error:9.1f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
