"""Every test here runs through each relay, on the loop the product runs on."""

import pytest
import uvloop

from tests.hostile.kit import LANES, front


def pytest_asyncio_loop_factories(config, item):
    """The loop the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LANES)
def open_front(request):
    """`async with open_front(settings, …) as f`: a router through one of the relays."""
    return lambda *arguments, **options: front(request.param, *arguments, **options)
