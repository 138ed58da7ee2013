"""One hot prefix in virtual time: who gets the requests, and do conversations stay where they are.

    .venv/bin/python -m tests.config.hot_prefix config/default.yaml config/tiered-prefix-cpu.yaml

Clients in a closed loop hold conversations of four turns; every prompt begins with the same 8 kB. A request
takes 1 to 2 s. Four endpoints are scraped every 200 ms; nobody ever waits in their queues, and each request in
flight takes half a percent of their KV blocks. Decisions are those of the product.
"""

import heapq
import json
import pathlib
import random
import sys
from collections import Counter
from dataclasses import dataclass

from epp.compose import CoreOptions, compose
from epp.config import load_config
from epp.director.types import EndReason, RequestHead
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics

HOT = "You are a helpful assistant. " * 280
TURNS = 4
SCRAPE_S = 0.2


@dataclass
class Client:
    """One conversation after another."""

    prompt: str = ""
    turn: int = 0
    last: str = ""
    exchange: object = None


class Fleet:
    """Four endpoints behind one core."""

    def __init__(self, config: str) -> None:
        options = CoreOptions(seed=7, slow_start_s=0.0, staleness_s=lambda: 1e9, timer=lambda: 0.0)
        self.core = compose(load_config(config), options)
        self.core.upkeep.sync_endpoints([parse_endpoint(f"10.0.0.{i}:8000") for i in range(1, 5)], 0.0)
        self.inflight: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.follow_ups = self.kept = 0
        self._next_scrape = 0.0

    def scrape_until(self, now: float) -> None:
        while self._next_scrape <= now:
            for endpoint in self.core.table.pool.endpoints:
                inflight = self.inflight[endpoint.address]
                metrics = EndpointMetrics(
                    waiting=0.0, running=float(inflight), kv_usage=min(1.0, 0.1 + 0.005 * inflight)
                )
                self.core.upkeep.on_metrics(
                    endpoint.address, endpoint.incarnation, metrics, self._next_scrape
                )
            self._next_scrape += SCRAPE_S

    def start(self, client: Client, now: float, rng: random.Random) -> None:
        if client.turn % TURNS == 0:
            client.prompt, client.last = HOT, ""
        client.prompt += f"question {rng.random()} " * 30
        client.turn += 1
        director = self.core.director
        exchange = director.open(RequestHead("", "POST", "/v1/completions"), now)
        body = json.dumps({"model": "m", "prompt": client.prompt}).encode()
        for _ in director.prepare(exchange, body, now):
            pass
        address = director.pick(exchange, now).address
        if client.last:
            self.follow_ups += 1
            self.kept += address == client.last
        client.last, client.exchange = address, exchange
        self.inflight[address] += 1
        self.sent[address] += 1

    def end(self, client: Client, now: float) -> None:
        director = self.core.director
        director.on_response_head(client.exchange, 200, now)
        director.on_first_byte(client.exchange, now)
        director.on_end(client.exchange, EndReason.COMPLETE, now)
        self.inflight[client.last] -= 1


def shares(config: str, clients: int = 32, requests: int = 1000) -> tuple[float, float]:
    """Share of the endpoint that got most, and share of follow-ups that stayed."""
    rng = random.Random(1)
    fleet = Fleet(config)
    everyone = [Client() for _ in range(clients)]
    events = [(rng.random(), number, "start") for number in range(clients)]
    heapq.heapify(events)
    while fleet.sent.total() < requests:
        now, number, what = heapq.heappop(events)
        fleet.scrape_until(now)
        if what == "end":
            fleet.end(everyone[number], now)
            heapq.heappush(events, (now + 0.05 * rng.random(), number, "start"))
        else:
            fleet.start(everyone[number], now, rng)
            heapq.heappush(events, (now + 1.0 + rng.random(), number, "end"))
    return max(fleet.sent.values()) / requests, fleet.kept / fleet.follow_ups


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for clients in (8, 32, 64, 128):
            hottest, kept = shares(pathlib.Path(name).read_text(), clients, 4000)
            sys.stdout.write(f"{name}: {clients} clients, hottest {hottest:.1%}, kept {kept:.1%}\n")
