"""The control surface around a real core, asked without a server."""

import httpx

from epp.api.access import AccessPolicy
from epp.api.app import create_control_app
from epp.api.openapi import RelayedRoute
from epp.api.ports import Ports, Readiness
from epp.clock import ManualClock
from epp.compose import CoreOptions, compose
from epp.config import load_config
from epp.config.builtin import builtin_config
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import ModelInfo

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


class Decisions:
    """Remembers what it was asked for."""

    def __init__(self):
        self.limits = []

    def render(self, limit):
        self.limits.append(limit)
        return [{"request_id": "r-1"}]


class Surface:
    """Two endpoints that serve the model m; everything else is what the test says."""

    def __init__(self, config=None, **ports):
        self.clock = ManualClock()
        self.core = compose(load_config(config or builtin_config(), "test"), CoreOptions(seed=1))
        self.core.upkeep.sync_endpoints([parse_endpoint(f"http://{a}") for a in (A, B)], 0.0)
        for address, models in ((A, ("m", "only-a")), (B, ("m",))):
            incarnation = self.core.table.pool.by_address[address].incarnation
            infos = tuple(ModelInfo(name, raw=b'{"id":"%b"}' % name.encode()) for name in models)
            self.core.upkeep.on_models(address, incarnation, infos, 0.0)
        self.decisions = Decisions()
        self.readiness = Readiness(True)
        self.app = create_control_app(
            Ports(
                **{
                    "director": self.core.director,
                    "clock": self.clock,
                    "access": AccessPolicy("key"),
                    "readiness": lambda: self.readiness,
                    "metrics": lambda: iter([b"one 1\n", b"two 2\n"]),
                    "metrics_content_type": "text/plain; version=0.0.4",
                    "decisions": self.decisions,
                    "configuration": lambda: {"profiles": []},
                    "max_request_bytes": 10_000_000,
                    "version": "9.9.9",
                }
                | ports
            ),
            [RelayedRoute("POST", "/v1/chat/completions", "Chat"), RelayedRoute("POST", "/ping", "Other")],
        )

    async def ask(self, method, path, *, client=("127.0.0.1", 50_000), **options) -> httpx.Response:
        """One request; an exception of the application becomes its answer, as on a server."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://epp") as http:
            return await http.request(method, path, **options)
