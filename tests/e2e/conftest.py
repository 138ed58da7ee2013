"""Simulated servers and routers for one test; everything is stopped at its end."""

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache

import openai
import pytest
import uvloop

from epp.config import Settings
from epp.config.settings import AccessLogSettings
from epp.endpoints.spec import parse_endpoints
from epp.simserver import SimServer, core
from tests.e2e.kit import DEFAULT_CONFIG, new_client, running_process, running_router


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items):
    """Everything here is marked."""
    for item in items:
        if item.path.parent.name == "e2e":
            item.add_marker(pytest.mark.e2e)


@pytest.fixture
async def stack():
    """What ends with the test, in the reverse order of its beginning."""
    async with AsyncExitStack() as entered:
        yield entered


one_vocabulary = cache(core.Vocabulary)


@pytest.fixture
def fleet(stack, monkeypatch):
    """Starts `count` equal servers, fast-forwarded; returns them. They share a tokenizer, since reading it
    takes longer than most tests.
    """
    monkeypatch.setattr(core, "Vocabulary", one_vocabulary)

    async def start(count=1, **settings):
        options = {"time_scale": 50.0, "record_requests": 100} | settings
        return [await stack.enter_async_context(SimServer(**options)) for _ in range(count)]

    return start


@pytest.fixture
def route(stack, tmp_path):
    """Starts a router in front of servers or URLs, with settings by name; it logs to files."""

    async def start(*endpoints, config=DEFAULT_CONFIG, **changes):
        urls = [getattr(endpoint, "url", endpoint) for endpoint in endpoints]
        settings = Settings(
            host="127.0.0.1",
            port=0,
            endpoint=parse_endpoints(urls),
            seed=1,
            drain_timeout_s=2.0,
            access_log=AccessLogSettings(file=str(tmp_path / "access.log")),
        )
        return await stack.enter_async_context(running_router(replace(settings, **changes), config))

    return start


@pytest.fixture
def spawn(stack, tmp_path):
    """Starts `python -m epp` with arguments and environment variables."""

    async def start(*arguments, **environment):
        return await stack.enter_async_context(running_process(tmp_path, *arguments, **environment))

    return start


@pytest.fixture
def connect(stack):
    """Makes HTTP clients of a URL."""

    async def start(url, **options):
        return await stack.enter_async_context(new_client(url, **options))

    return start


@pytest.fixture
def sdk(stack):
    """Makes clients of OpenAI's library."""

    async def start(router):
        http = await stack.enter_async_context(new_client(""))
        return openai.AsyncOpenAI(
            api_key="sk-anything", base_url=f"{router.url}/v1", http_client=http, max_retries=0
        )

    return start
