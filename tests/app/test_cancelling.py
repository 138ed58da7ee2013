"""A router that is cancelled, at whatever step, leaves nothing behind."""

import asyncio
import gc
import logging
from pathlib import Path

import pytest

from epp.app.server import serve_async
from epp.config import Settings
from epp.config.settings import AccessLogSettings
from epp.endpoints.spec import parse_endpoints
from tests.e2e.kit import DEFAULT_CONFIG


@pytest.fixture
def untouched():
    """What serving does to the process is undone: log handlers, frozen objects."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    gc.unfreeze()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def cancelled_after(steps, settings):
    """Start a router and cancel it after so many turns of the loop; how it ended, and what it listened on."""
    serving = asyncio.create_task(serve_async(settings, DEFAULT_CONFIG))
    for _ in range(steps):
        await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait({serving}, timeout=10)
    return serving.cancelled()


async def test_nothing_is_left_of_a_router_that_is_cancelled_at_any_step(serve, tmp_path, untouched):
    endpoint = await serve()
    settings = Settings(
        host="127.0.0.1",
        port=0,
        endpoint=parse_endpoints([endpoint.url]),
        access_log=AccessLogSettings(file=str(tmp_path / "access.log")),
    )
    await cancelled_after(30, settings)  # what is opened once and stays, such as the loop's resolver threads
    await asyncio.sleep(0.05)
    tasks, descriptors = asyncio.all_tasks(), open_descriptors()
    for steps in range(1, 60):
        assert await cancelled_after(steps, settings), steps
    await asyncio.sleep(0.05)  # the endpoint notices that its connections are gone

    assert [task for task in asyncio.all_tasks() - tasks if "_serve" not in repr(task)] == []
    assert open_descriptors() <= descriptors
