"""Routers and endpoints on real sockets; everything is stopped at a test's end."""

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import uvloop

from epp.config import Settings
from epp.config.settings import AccessLogSettings
from epp.endpoints.spec import parse_endpoints
from tests.app.endpoint import ModelEndpoint
from tests.certificates import Authority
from tests.e2e.kit import new_client, running_process, running_router


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def stack():
    """What ends with the test, in the reverse order of its beginning."""
    async with AsyncExitStack() as entered:
        yield entered


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path, "ours")


@pytest.fixture
def serve(stack):
    """Starts an endpoint; `tls` is its context."""

    async def start(tls=None):
        return await stack.enter_async_context(ModelEndpoint(tls))

    return start


@pytest.fixture
def route(stack, tmp_path):
    """Starts a router in front of endpoints, with settings by name; it logs to files."""

    async def start(*endpoints, **changes):
        settings = Settings(
            host="127.0.0.1",
            port=0,
            endpoint=parse_endpoints([endpoint.url for endpoint in endpoints]),
            seed=1,
            drain_timeout_s=2.0,
            access_log=AccessLogSettings(file=str(tmp_path / "access.log")),
        )
        return await stack.enter_async_context(running_router(replace(settings, **changes)))

    return start


@pytest.fixture
def connect(stack):
    """Makes HTTP clients of a URL."""

    async def start(url, **options):
        return await stack.enter_async_context(new_client(url, **options))

    return start


@pytest.fixture
def spawn(stack, tmp_path):
    """Starts `python -m epp` with arguments and environment variables."""

    async def start(*arguments, **environment):
        return await stack.enter_async_context(running_process(tmp_path, *arguments, **environment))

    return start
