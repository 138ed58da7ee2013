"""When endpoints are scraped and what comes of it, in a time that moves when told to."""

import asyncio

import pytest

from epp.endpoints.types import EndpointMetrics
from epp.http.types import ErrorKind
from epp.scrape.probing import ScrapeFault
from epp.scrape.scraper import Scraper, ScrapeSettings
from tests.scrape.fakes import PAGE, FakeNetwork, FakeTime, Receiver, endpoint, failed

E1, E2 = "10.0.0.1:8000", "10.0.0.2:8000"


class Scene:
    """A scraper, started, and everything around it."""

    def __init__(self, *endpoints, **settings):
        self.time = FakeTime()
        self.network = FakeNetwork(self.time)
        self.receiver = Receiver()
        self.in_flight = {}
        self.lines = []
        self.scraper = Scraper(
            self.network.fetch,
            self.receiver,
            ScrapeSettings(**settings),
            clock=self.time,
            sleep=self.time.sleep,
            in_flight=lambda address: self.in_flight.get(address, 0),
            log=self.lines.append,
        )
        self.scraper.sync(endpoints)
        self.scraper.start()

    async def run(self, seconds):
        await self.time.run(seconds)


def usage(value):
    return b"vllm:kv_cache_usage_perc %b\nvllm:num_requests_waiting 1\n" % value


async def test_page_is_read_and_told_with_address_incarnation_and_time():
    scene = Scene(endpoint(1, incarnation=7))
    await scene.run(0.01)

    assert scene.receiver.metrics == [(E1, 7, EndpointMetrics(waiting=0.0, engine="vllm", engines=1), 0.0)]
    await scene.scraper.stop()


async def test_request_has_no_authorization_unless_a_key_is_configured():
    plain, keyed = Scene(endpoint(1)), Scene(endpoint(1), api_key="k1")
    for scene in (plain, keyed):
        await scene.run(0.01)
        await scene.scraper.stop()

    request = plain.network.asked[0].request
    assert (request.method, request.target, request.body) == (b"GET", b"/metrics", b"")
    assert request.headers == [(b"accept", b"text/plain")]
    assert keyed.network.asked[0].request.headers == [
        (b"accept", b"text/plain"),
        (b"authorization", b"Bearer k1"),
    ]


@pytest.mark.parametrize(
    ("labels", "configured", "path"),
    [
        ({}, None, b"/metrics"),
        ({"llm-d.ai/engine-type": "trtllm-serve"}, None, b"/prometheus/metrics"),
        ({"inference.networking.k8s.io/engine-type": "trtllm-serve"}, None, b"/prometheus/metrics"),
        ({"llm-d.ai/engine-type": "sglang"}, None, b"/metrics"),
        ({"llm-d.ai/engine-type": "trtllm-serve"}, "/m", b"/m"),
    ],
)
async def test_path_is_the_configured_one_else_the_engines(labels, configured, path):
    scene = Scene(endpoint(1, labels=labels), path=configured)
    await scene.run(0.01)

    assert scene.network.asked[0].request.target == path
    await scene.scraper.stop()


@pytest.mark.parametrize(("configured", "scheme"), [(None, "http"), ("https", "https")])
async def test_scheme_can_be_overridden(configured, scheme):
    scene = Scene(endpoint(1), scheme=configured, timeout_s=1.5)
    await scene.run(0.01)

    asked = scene.network.asked[0]
    assert (asked.origin.scheme, asked.origin.host, asked.origin.port) == (scheme, "10.0.0.1", 8000)
    assert asked.timeout_s == 1.5
    await scene.scraper.stop()


class TestIntervals:
    async def test_idle_endpoint_is_scraped_each_half_second(self):
        scene = Scene(endpoint(1))
        await scene.run(2.0)

        assert scene.network.times() == [0.0, 0.05, 0.55, 1.05, 1.55]
        await scene.scraper.stop()

    async def test_endpoint_with_requests_of_ours_is_scraped_each_200_ms(self):
        scene = Scene(endpoint(1))
        scene.in_flight[E1] = 1
        await scene.run(0.7)
        scene.in_flight[E1] = 0
        await scene.run(1.3)

        assert scene.network.times() == [0.0, 0.05, 0.25, 0.45, 0.65, 0.85, 1.35, 1.85]
        await scene.scraper.stop()

    @pytest.mark.parametrize("page", [b"vllm:num_requests_running 2\n", b"vllm:num_requests_waiting 2\n"])
    async def test_endpoint_loaded_by_others_is_scraped_each_200_ms(self, page):
        scene = Scene(endpoint(1))
        scene.network.answers["10.0.0.1"] = page
        await scene.run(0.5)

        assert scene.network.times() == [0.0, 0.05, 0.25, 0.45]
        await scene.scraper.stop()

    async def test_configured_interval_is_kept_under_any_load(self):
        scene = Scene(endpoint(1), refresh_interval_s=0.3)
        scene.in_flight[E1] = 5
        await scene.run(1.0)

        assert scene.network.times() == [0.0, 0.05, 0.35, 0.65, 0.95]
        assert scene.lines == []
        await scene.scraper.stop()

    @pytest.mark.parametrize("interval", [0.0, 0.001, -5.0])
    async def test_interval_below_50_ms_is_raised_with_a_warning(self, interval):
        scene = Scene(endpoint(1), refresh_interval_s=interval)
        await scene.run(0.2)

        assert scene.network.times() == [0.0, 0.05, 0.1, 0.15, 0.2]
        assert scene.lines == [f"a refresh interval of {interval:g} s is too short, 50 ms is used"]
        await scene.scraper.stop()

    async def test_first_waits_differ_so_that_endpoints_do_not_keep_step(self):
        scene = Scene(*(endpoint(last) for last in (1, 2, 3, 4)))
        await scene.run(0.6)

        second_scrapes = [scene.network.times(last)[1] for last in (1, 2, 3, 4)]
        assert second_scrapes == [0.05, 0.309, 0.118, 0.427]
        await scene.scraper.stop()

    async def test_interval_counts_from_begin_to_begin(self):
        scene = Scene(endpoint(1), refresh_interval_s=1.0)
        await scene.run(0.01)
        slow = asyncio.get_running_loop().create_future()
        scene.network.answers["10.0.0.1"] = slow
        await scene.run(0.4)
        slow.set_result(PAGE)
        scene.network.answers["10.0.0.1"] = PAGE
        await scene.run(1.0)

        assert scene.network.times() == [0.0, 0.05, 1.05]
        await scene.scraper.stop()

    async def test_scrape_that_took_longer_than_the_interval_is_followed_after_50_ms(self):
        scene = Scene(endpoint(1), refresh_interval_s=0.2)
        await scene.run(0.01)
        slow = asyncio.get_running_loop().create_future()
        scene.network.answers["10.0.0.1"] = slow
        await scene.run(1.0)
        slow.set_result(PAGE)
        scene.network.answers["10.0.0.1"] = PAGE
        await scene.run(0.06)

        assert scene.network.times() == [0.0, 0.05, 1.06]
        await scene.scraper.stop()


class TestIndependence:
    async def test_one_hanging_endpoint_delays_no_other_and_is_asked_once_at_a_time(self):
        scene = Scene(*(endpoint(last) for last in range(1, 21)), refresh_interval_s=0.05)
        scene.network.answers["10.0.0.1"] = asyncio.get_running_loop().create_future()
        await scene.run(1.0)

        assert len(scene.network.times(1)) == 1
        assert {len(scene.network.times(last)) for last in range(2, 21)} == {21}
        assert set(scene.network.most_at_once.values()) == {1}
        await scene.scraper.stop()

    async def test_endpoints_come_and_go_at_run_time(self):
        scene = Scene(endpoint(1), refresh_interval_s=0.5)
        await scene.run(0.2)
        scene.scraper.sync([endpoint(2)])
        await scene.run(0.4)

        assert scene.network.times(1) == [0.0, 0.05]
        assert scene.network.times(2) == [0.2, 0.509]
        await scene.scraper.stop()

    async def test_nothing_is_asked_after_the_stop(self):
        scene = Scene(endpoint(1))
        await scene.run(0.01)
        await scene.scraper.stop()
        await scene.run(5)

        assert scene.network.times() == [0.0]

    async def test_fault_of_the_receiver_does_not_end_the_scraping(self):
        scene = Scene(endpoint(1), refresh_interval_s=1.0)
        scene.receiver.fault = RuntimeError("boom")
        await scene.run(1.2)

        assert scene.network.times() == [0.0, 0.05, 0.55, 1.05]
        assert len(scene.receiver.metrics) == 4
        assert scene.lines[0] == "scraping 10.0.0.1:8000 failed: result not taken: RuntimeError('boom')"
        await scene.scraper.stop()


class TestFailures:
    @pytest.mark.parametrize(
        ("answer", "fault", "detail"),
        [
            (failed(ErrorKind.CONNECT), ScrapeFault.CONNECT, "gone"),
            (failed(ErrorKind.CONNECT_TIMEOUT), ScrapeFault.CONNECT, "gone"),
            (failed(ErrorKind.TOTAL_TIMEOUT), ScrapeFault.TIMEOUT, "gone"),
            (failed(ErrorKind.FIRST_BYTE_TIMEOUT), ScrapeFault.TIMEOUT, "gone"),
            (failed(ErrorKind.IDLE_TIMEOUT), ScrapeFault.TIMEOUT, "gone"),
            (failed(ErrorKind.BROKEN), ScrapeFault.BROKEN, "gone"),
            (failed(ErrorKind.CLOSED_REUSED), ScrapeFault.BROKEN, "gone"),
            (failed(ErrorKind.ABORTED_AFTER_HEAD), ScrapeFault.BROKEN, "gone"),
            (failed(ErrorKind.PROTOCOL), ScrapeFault.BROKEN, "gone"),
            (failed(ErrorKind.POOL_EXHAUSTED), ScrapeFault.LOCAL, "gone"),
            (404, ScrapeFault.STATUS, "/metrics answered 404"),
            (b"<html></html>", ScrapeFault.PARSE, "not a line of metrics: '<html></html>'"),
        ],
    )
    async def test_failed_scrape_is_told_by_whose_fault_it_is(self, answer, fault, detail):
        scene = Scene(endpoint(1, incarnation=3))
        scene.network.answers["10.0.0.1"] = answer
        await scene.run(0.01)

        assert scene.receiver.failures == [(E1, 3, fault, detail, 0.0)]
        assert scene.receiver.metrics == []
        assert scene.lines == [f"scraping 10.0.0.1:8000 failed: {fault}: {detail}"]
        await scene.scraper.stop()

    async def test_scraping_goes_on_after_failures_and_recovery_is_logged(self):
        scene = Scene(endpoint(1), refresh_interval_s=0.5)
        scene.network.answers["10.0.0.1"] = failed(ErrorKind.CONNECT, "refused")
        await scene.run(1.1)
        scene.network.answers["10.0.0.1"] = PAGE
        await scene.run(0.5)

        assert len(scene.receiver.failures) == 4
        assert len(scene.receiver.metrics) == 1
        assert scene.lines == [
            "scraping 10.0.0.1:8000 failed: connect: refused",
            "scraping 10.0.0.1:8000 works again, failures before: 4",
        ]
        await scene.scraper.stop()

    async def test_endless_failure_is_logged_each_30_seconds(self):
        scene = Scene(endpoint(1), refresh_interval_s=0.5)
        scene.network.answers["10.0.0.1"] = failed(ErrorKind.CONNECT, "refused")
        await scene.run(65)

        assert len(scene.receiver.failures) > 100
        assert len(scene.lines) == 3
        await scene.scraper.stop()


class TestStandIns:
    async def scrape(self, scene, *pages):
        """Scrape once a second; the usage told each time."""
        for page in pages:
            scene.network.answers["10.0.0.1"] = page
            await scene.run(1.0)
        return [metrics.kv_usage for _, _, metrics, _ in scene.receiver.metrics[1:]]

    async def begin(self, **settings):
        scene = Scene(endpoint(1), refresh_interval_s=1.0, **settings)
        scene.network.answers["10.0.0.1"] = usage(b"0.1")
        await scene.run(0.01)
        return scene

    async def test_last_good_value_stands_in_until_it_is_stale(self):
        scene = await self.begin(stale_s=2.0)
        told = await self.scrape(scene, usage(b"0.4"), *[usage(b"NaN")] * 4, usage(b"0.5"), usage(b"NaN"))

        assert told == [0.4, 0.4, 0.4, None, None, 0.5, 0.5]
        assert {metrics.waiting for _, _, metrics, _ in scene.receiver.metrics} == {1.0}
        await scene.scraper.stop()

    async def test_first_value_that_cannot_be_true_is_unknown(self):
        scene = Scene(endpoint(1))
        scene.network.answers["10.0.0.1"] = usage(b"1.7")
        await scene.run(0.01)

        assert [metrics.kv_usage for _, _, metrics, _ in scene.receiver.metrics] == [None]
        await scene.scraper.stop()

    async def test_value_of_an_earlier_incarnation_does_not_stand_in(self):
        scene = await self.begin()
        await self.scrape(scene, usage(b"0.4"))
        scene.scraper.sync([endpoint(1, incarnation=2)])
        told = await self.scrape(scene, usage(b"NaN"))

        assert told[-1] is None
        assert scene.receiver.metrics[-1][1] == 2
        await scene.scraper.stop()

    async def test_value_that_vanishes_from_the_page_is_unknown_at_once(self):
        scene = await self.begin()
        told = await self.scrape(scene, usage(b"0.4"), PAGE)

        assert told == [0.4, None]
        await scene.scraper.stop()


async def test_scrape_that_began_before_a_new_incarnation_is_told_as_the_old_one():
    scene = Scene(endpoint(1, incarnation=1))
    slow = asyncio.get_running_loop().create_future()
    scene.network.answers["10.0.0.1"] = slow
    await scene.run(0.1)
    scene.scraper.sync([endpoint(1, incarnation=2)])
    slow.set_result(PAGE)
    await scene.run(0.01)

    assert [incarnation for _, incarnation, _, _ in scene.receiver.metrics] == [1]
    await scene.scraper.stop()
