"""A gateway made of a real Envoy, epp as its endpoint picker, and model servers behind it."""

from dataclasses import dataclass, replace

import pytest
import uvloop

from epp.config.gateway_settings import GrpcSettings
from tests.e2e.conftest import connect, route, spawn, stack
from tests.e2e.kit import Router, free_port
from tests.envoy.bootstrap import Setup, bootstrap
from tests.envoy.kit import Envoy, Server, running_envoy

__all__ = ["connect", "route", "spawn", "stack"]


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items):
    """Everything here is marked."""
    for item in items:
        if item.path.parent.name == "envoy":
            item.add_marker(pytest.mark.envoy)


@dataclass
class Gateway:
    """All of it, running."""

    envoy: Envoy
    router: Router
    servers: list[Server]

    async def chat(self, content: str = "Hello", headers: dict[str, str] | None = None, **fields: object):
        """The answer to one chat request through Envoy."""
        body = {"model": "m", "messages": [{"role": "user", "content": content}], **fields}
        return await self.envoy.client.post("/v1/chat/completions", json=body, headers=headers)


@pytest.fixture
def servers(stack):
    """Starts model servers."""

    async def start(count=2, **options):
        return [await stack.enter_async_context(Server(**options)) for _ in range(count)]

    return start


@pytest.fixture
def envoy(stack, tmp_path):
    """Starts Envoy with a set-up."""

    async def start(setup):
        return await stack.enter_async_context(running_envoy(tmp_path, bootstrap(setup)))

    return start


@pytest.fixture
def gateway(stack, route, envoy, servers):
    """Starts servers, epp as a picker, and Envoy.

    `grpc` and `settings` are epp's; all else is Envoy's set-up.
    """

    async def start(count=2, *, backends=None, grpc=None, config=None, settings=None, **setup):
        backends = await servers(count) if backends is None else backends
        port = free_port()
        options = GrpcSettings(port=port, secure=setup.get("tls", False), **(grpc or {}))
        router = await route(
            *backends, grpc=options, **(settings or {}), **({"config": config} if config else {})
        )
        await router.know("m")
        addresses = tuple(server.address for server in backends)
        made = replace(Setup(picker_port=port, endpoints=addresses), **setup)
        return Gateway(await envoy(made), router, backends)

    return start
