"""What holds for all tests."""

import asyncio

import pytest
from hypothesis import HealthCheck, settings

# Nothing is timed: a machine that has much to do makes no test wrong.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


class _TidyLoop(asyncio.SelectorEventLoop):
    """Closes what a test left open.

    A client that was cut off in the middle keeps its socket until the garbage collector comes by, which then
    warns in the middle of another test. What the product must close has tests of its own.
    """

    def close(self) -> None:
        left = [] if self.is_closed() else list(getattr(self, "_transports", {}).values())
        for transport in left:
            transport.abort()
        if left:
            self.run_until_complete(asyncio.sleep(0))
        super().close()


@pytest.hookimpl(trylast=True)
def pytest_asyncio_loop_factories(config, item):
    """Rooms whose tests need the product's own loop say so."""
    return {"asyncio": _TidyLoop}
