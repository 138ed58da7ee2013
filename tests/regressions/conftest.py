"""Faults that operators of other routers reported, one row of the corpus a test, through the whole product.

docs/corpus.md has a line for every row. What goes through a relay goes through every lane.
"""

from contextlib import AsyncExitStack
from types import MappingProxyType

import pytest
import uvloop

from tests.e2e.conftest import connect, fleet, sdk, stack
from tests.e2e.conftest import route as plain_route
from tests.regressions.kit import Recorder, Scripted

__all__ = ["connect", "fleet", "plain_route", "recorder", "route", "sdk", "stack"]

# Name of a relay → the settings that choose it.
LANES = MappingProxyType({"asgi": {"lane": "asgi"}, "fast": {"lane": "fast"}})


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LANES)
def lane(request):
    """Settings that choose the relay."""
    return LANES[request.param]


@pytest.fixture
def route(plain_route, lane):
    """Starts a router in front of endpoints, as in tests/e2e, that relays by the lane."""

    async def start(*endpoints, **settings):
        return await plain_route(*endpoints, **lane, **settings)

    return start


@pytest.fixture
async def recorder(stack: AsyncExitStack):
    """Starts endpoints that write down what they are asked."""

    async def start(**answers):
        return await stack.enter_async_context(Recorder(**answers))

    return start


@pytest.fixture
async def scripted(stack: AsyncExitStack):
    """Starts `count` endpoints whose answers the test writes byte by byte."""

    async def start(count=1, **options):
        return [await stack.enter_async_context(Scripted(**options)) for _ in range(count)]

    return start


@pytest.fixture
async def stage(recorder, route):
    """An endpoint that writes down what it is asked, and a router that knows its model `m`."""
    endpoint = await recorder()
    router = await route(endpoint, allow_engine_admin=True)
    await router.know("m")
    return endpoint, router


@pytest.fixture
async def theatre(scripted, route):
    """A scripted endpoint, and a router that knows its model `m`."""
    [endpoint] = await scripted()
    router = await route(endpoint)
    await router.know("m")
    return endpoint, router
