"""The front door in front of scripted endpoints."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest
import uvloop

from epp.http import UpstreamPool, UpstreamSettings
from epp.proxy import FastLane, ProxySettings, Relay
from tests.proxy.harness import Door, RawClient, ScriptedDirector
from tests.proxy.upstream import ScriptedUpstream


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class Stage:
    """Client, front door, director and endpoints of one test."""

    door: Door
    relay: Relay
    director: ScriptedDirector
    pool: UpstreamPool
    upstreams: list[ScriptedUpstream]

    @property
    def upstream(self) -> ScriptedUpstream:
        return self.upstreams[0]

    async def client(self, **options: int) -> RawClient:
        return await self.door.client(**options)


StageFactory = Callable[..., "AsyncExitStack"]


@asynccontextmanager
async def new_stage(
    settings: ProxySettings | None = None,
    upstream_settings: UpstreamSettings | None = None,
    *,
    endpoints: int = 1,
    targets: int | None = None,
    tls: ssl.SSLContext | None = None,
    lane: str = "asgi",
    **relay_options: object,
) -> AsyncIterator[Stage]:
    """`targets`: how many targets the director has, one an endpoint by default."""
    settings = settings or ProxySettings()
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(ScriptedUpstream()) for _ in range(endpoints)]
        director = ScriptedDirector([upstream.target() for upstream in upstreams[:targets]])
        pool = UpstreamPool(upstream_settings or UpstreamSettings())
        stack.push_async_callback(pool.close)
        relay = Relay(director, pool, settings, **relay_options)  # type: ignore[arg-type]
        door = await stack.enter_async_context(
            Door(
                relay,
                settings,
                on_drain_timeout=relay.shut_down,
                tls=tls,
                lane=FastLane(relay, lambda _path: True) if lane == "fast" else None,
            )
        )
        yield Stage(door, relay, director, pool, upstreams)


@pytest.fixture(params=["asgi", "fast"])
def lane(request) -> str:
    """Both relays must do the same."""
    return request.param


@pytest.fixture
def stage(lane: str) -> StageFactory:
    """`async with stage(settings, …) as s`: everything up and connected, torn down afterwards."""
    return partial(new_stage, lane=lane)  # type: ignore[return-value]
