"""A small pool with the real parts, and a way to send requests through the director without a front door."""

import json
from dataclasses import dataclass, field

from epp.compose import Core, CoreOptions, compose
from epp.config.load import load_config
from epp.director.exchange import Exchange
from epp.director.types import EndReason, RequestHead, Target
from epp.endpoints.spec import parse_endpoint
from epp.response.types import Usage

TIERED = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- {type: approx-prefix-cache-producer, name: gpu, parameters: {blockSize: 64}}
- type: approx-prefix-cache-producer
  name: cpu
  parameters: {blockSize: 64, autoTune: false, lruCapacityPerServer: 1000}
- {type: prefix-cache-scorer, name: gpu-scorer, parameters: {prefixMatchInfoProducerName: gpu}}
- {type: prefix-cache-scorer, name: cpu-scorer, parameters: {prefixMatchInfoProducerName: cpu}}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: gpu-scorer, weight: 1}
  - {pluginRef: cpu-scorer, weight: 1}
"""


@dataclass
class Pool:
    """`n` endpoints 10.0.0.1:8000 … behind one director; `records` are what observers got."""

    n: int = 3
    config: str = TIERED
    options: CoreOptions = field(default_factory=lambda: CoreOptions(seed=7, timer=lambda: 0.0))

    def __post_init__(self):
        self.records = []
        self.core: Core = compose(
            load_config(self.config, "test"), self.options, observers=[self.records.append]
        )
        self.director = self.core.director
        self.ledger = self.core.state.ledger
        self.index = self.core.state.index
        self.specs = [parse_endpoint(f"http://10.0.0.{i}:8000") for i in range(1, self.n + 1)]
        self.core.upkeep.sync_endpoints(self.specs, 0.0)

    def endpoint(self, i):
        """The i-th endpoint, counted from one."""
        return self.core.table.pool.by_address[f"10.0.0.{i}:8000"]

    def open(self, body=None, *, path="/v1/completions", method="POST", headers=None, now=1.0) -> Exchange:
        """An exchange whose body has been read."""
        exchange = self.director.open(RequestHead("req-1", method, path, headers or {}), now)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        for _ in self.director.prepare(exchange, raw, now):
            pass
        return exchange

    def send(self, prompt, now=1.0, **more) -> tuple[Exchange, Target]:
        """A completion request that has been picked."""
        exchange = self.open({"model": "m", "prompt": prompt, **more}, now=now)
        return exchange, self.director.pick(exchange, now)

    def answer(self, exchange, *, usage=None, now=2.0):
        """A complete 200."""
        self.director.on_response_head(exchange, 200, now)
        self.director.on_first_byte(exchange, now)
        self.director.on_end(exchange, EndReason.COMPLETE, now, usage=usage, response_bytes=10)

    def serve(self, prompt, now=1.0, *, usage=None, **more) -> Exchange:
        """A request from arrival to end."""
        exchange, _ = self.send(prompt, now, **more)
        self.answer(exchange, usage=usage, now=now)
        return exchange


def usage(prompt, completion=4, cached=None):
    """What an endpoint reports."""
    return Usage(prompt, completion, cached)
