"""A router as `epp serve` runs it, with a clock that jumps, in front of servers that DNS names."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from epp.app.runtime import Runtime
from epp.config import Settings, load_config
from epp.config.settings import (
    AccessLogSettings,
    DiscoverySettings,
    HealthSettings,
    LogSettings,
    UpstreamSettings,
)
from epp.discovery.dnspython_resolver import DnspythonResolver
from epp.endpoints.dns_name import parse_dns_name
from epp.proxy import EppServer, FastLane, bind_socket
from tests.discovery.dns_server import DnsServer, dns_server

__all__ = ["NAME", "JumpingClock", "Stage", "running"]

NAME = "fleet.test."
FIRST_BYTE_S = 2.0


class JumpingClock:
    """The machine's clocks, and what was added to them."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.wall_ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s

    def wall(self) -> float:
        return time.time() + self.wall_ahead_s


@dataclass
class Stage:
    """What a run disturbs and looks at."""

    runtime: Runtime
    clock: JumpingClock
    dns: DnsServer
    config: Path
    port: int


def settings(config: Path, servers_port: int, lane: str) -> Settings:
    """Quick to notice and to forgive, so that a run of seconds sees both."""
    return Settings(
        host="127.0.0.1",
        port=0,
        seed=1,
        lane=lane,
        config=str(config),
        config_interval_s=0.2,
        drain_timeout_s=5.0,
        slow_start_s=1.0,
        discovery=DiscoverySettings(
            dns=(parse_dns_name(f"http://{NAME}:{servers_port}"),),
            dns_min_interval_s=0.2,
            dns_max_interval_s=0.2,
        ),
        health=HealthSettings(ejection_time_s=0.5, max_ejection_time_s=2.0),
        upstream=UpstreamSettings(
            connect_timeout_s=1.0, first_byte_timeout_s=FIRST_BYTE_S, idle_timeout_s=FIRST_BYTE_S
        ),
        access_log=AccessLogSettings(enabled=False),
        log=LogSettings(level="error"),
    )


@contextlib.asynccontextmanager
async def running(hosts: list[str], servers_port: int, config: Path, lane: str) -> AsyncIterator[Stage]:
    """The router of one run; it has ended when this ends."""
    async with dns_server() as dns:
        dns.ttl_s = 0
        dns.records[NAME, "A"] = list(hosts)
        resolver = DnspythonResolver(("127.0.0.1",), dns.port)
        with patch("epp.discovery.dnspython_resolver.DnspythonResolver", lambda: resolver):
            chosen = settings(config, servers_port, lane)
            clock = JumpingClock()
            runtime = Runtime(chosen, load_config(config.read_text(), str(config)), clock)
        server = EppServer(
            runtime.app,  # type: ignore[arg-type]
            runtime.proxy_settings,
            lane=FastLane(runtime.relay, runtime.app.relays) if lane == "fast" else None,
            on_drain=runtime.begin_drain,
            on_drain_timeout=runtime.relay.shut_down,
        )
        bound = bind_socket("127.0.0.1", 0)
        await runtime.start()
        serving = asyncio.create_task(server.serve([bound]))
        try:
            await server.started.wait()
            yield Stage(runtime, clock, dns, config, bound.getsockname()[1])
        finally:
            server.stop()
            await serving
            await runtime.stop()


def shuffled(hosts: list[str], chosen: random.Random) -> list[str]:
    """The same addresses in another order, as name servers rotate them."""
    return chosen.sample(hosts, len(hosts))
