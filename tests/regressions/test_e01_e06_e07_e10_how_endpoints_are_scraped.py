"""E01 (GIE i365): a URL without port, and an error each 50 ms. E07 (AX p2063): one slow pod froze all. E10 (LR p2394): 0."""

import asyncio

import pytest

from epp.http import Origin
from epp.http.types import ErrorKind
from tests.config.test_settings_load import problems
from tests.scrape.fakes import endpoint, failed
from tests.scrape.test_scraper import Scene


async def test_e01_the_page_is_asked_for_at_the_endpoints_own_port():
    scene = Scene(endpoint(1))
    await scene.run(0.01)
    await scene.scraper.stop()
    [asked] = scene.network.asked

    assert (asked.origin, asked.request.target) == (Origin("http", "10.0.0.1", 8000), b"/metrics")


async def test_e01_e06_an_endless_failure_is_logged_each_30_seconds():
    scene = Scene(endpoint(1), refresh_interval_s=0.05)
    scene.network.answers["10.0.0.1"] = failed(ErrorKind.CONNECT, "refused")
    await scene.run(65.0)
    await scene.scraper.stop()

    assert len(scene.receiver.failures) > 600
    assert len(scene.lines) == 3


async def test_e07_one_that_hangs_delays_nobody_and_is_asked_once_at_a_time():
    endpoints = [endpoint(n) for n in range(1, 21)]
    scene = Scene(*endpoints, refresh_interval_s=0.05)
    scene.network.answers["10.0.0.1"] = asyncio.get_running_loop().create_future()
    await scene.run(5.0)
    counts = {n: len(scene.network.times(n)) for n in range(1, 21)}
    await scene.scraper.stop()

    assert counts[1] == 1
    assert all(95 <= counts[n] <= 101 for n in range(2, 21))
    assert set(scene.network.most_at_once.values()) == {1}


@pytest.mark.parametrize("interval", ["0", "1ms", "-5s"])
def test_e10_an_interval_that_cannot_be_meant_is_refused(interval):
    [problem] = problems(flags=f"--refresh-metrics-interval={interval}")

    assert problem.startswith("--metrics-refresh-interval: must be ")


async def test_e10_one_that_is_too_short_is_raised_to_50_ms_and_told():
    scene = Scene(endpoint(1), refresh_interval_s=0.01)
    await scene.run(1.0)
    await scene.scraper.stop()

    assert 20 <= len(scene.network.times(1)) <= 21
    assert scene.lines == ["a refresh interval of 0.01 s is too short, 50 ms is used"]
