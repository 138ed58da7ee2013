"""Simulated servers on real sockets, fast-forwarded so that no test waits for a modelled GPU."""

import json
from contextlib import AsyncExitStack

import httpx
import pytest

from epp.simserver import SimServer
from tests.simserver.kit import FIXTURES


@pytest.fixture
def recorded():
    """Bodies and headers recorded from vLLM 0.32."""
    return json.loads((FIXTURES / "responses.json").read_text())


@pytest.fixture
async def launch():
    """Starts servers; all are stopped at the end."""
    async with AsyncExitStack() as stack:

        async def start(**settings):
            return await stack.enter_async_context(SimServer(**({"time_scale": 50.0} | settings)))

        yield start


@pytest.fixture
async def connect():
    """Makes HTTP clients; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def start(server, **options):
            client = httpx.AsyncClient(base_url=server.url, timeout=20, **options)
            return await stack.enter_async_context(client)

        yield start
