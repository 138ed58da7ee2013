"""Faults that operators of other routers reported, one row of the corpus a test, through the whole product."""

from contextlib import AsyncExitStack

import pytest
import uvloop

from tests.e2e.conftest import connect, fleet, route, sdk, stack
from tests.regressions.kit import Recorder

__all__ = ["connect", "fleet", "recorder", "route", "sdk", "stack"]


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def recorder(stack: AsyncExitStack):
    """Starts endpoints that write down what they are asked."""

    async def start(**answers):
        return await stack.enter_async_context(Recorder(**answers))

    return start


@pytest.fixture
async def stage(recorder, route):
    """An endpoint that writes down what it is asked, and a router that knows its model `m`."""
    endpoint = await recorder()
    router = await route(endpoint, allow_engine_admin=True)
    await router.know("m")
    return endpoint, router
