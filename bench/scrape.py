"""What scraping costs: reading one recorded page, and keeping a fleet fresh.

    python bench/scrape.py [--endpoints 100] [--interval-ms 50] [--seconds 4]

First part: µs of one page (recorded from vLLM 0.32), ours and prometheus_client's parser in the same run.
Second part: CPU of a process that does nothing but scrape, with the endpoints in another process.
"""

import argparse
import asyncio
import multiprocessing
import pathlib
import sys
import time
import timeit

import uvloop
from prometheus_client.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from epp.clock import SystemClock  # noqa: E402
from epp.endpoints.types import Endpoint, EndpointSpec  # noqa: E402
from epp.http import UpstreamPool, UpstreamSettings  # noqa: E402
from epp.scrape import PageReader, Scraper, ScrapeSettings, fetch_through  # noqa: E402

PAGES = {
    name: (ROOT / "tests/fixtures/vllm" / f"metrics-{name}.txt").read_bytes() for name in ("idle", "busy")
}


def microseconds(call, number):
    """The best of five series, in µs a call."""
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def measure_pages():
    for name, page in PAGES.items():
        reader = PageReader()
        ours = microseconds(lambda page=page, reader=reader: reader.read(page), 200)
        text = page.decode()
        theirs = microseconds(lambda text=text: list(text_string_to_metric_families(text)), 3)
        print(f"{name} page, {len(page):,} bytes: {ours:.0f} µs, prometheus_client {theirs:.0f} µs")


def serve(connection):
    """Answer anything on one port of every loopback address with the busy page."""
    page = PAGES["busy"]
    response = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(page) + page

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, _data):
            self.transport.write(response)

    async def main():
        server = await asyncio.get_running_loop().create_server(Server, "0.0.0.0", 0)
        connection.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


class Counter:
    """Counts what comes."""

    def __init__(self):
        self.pages = 0
        self.failures = 0

    def on_metrics(self, *_result):
        self.pages += 1

    def on_failure(self, *_result):
        self.failures += 1


async def scrape(port, options):
    endpoints = [
        Endpoint(number, 1, EndpointSpec("http", f"127.0.{number // 250}.{number % 250 + 1}", port))
        for number in range(options.endpoints)
    ]
    pool = UpstreamPool(UpstreamSettings())
    counter = Counter()
    scraper = Scraper(
        fetch_through(pool),
        counter,
        ScrapeSettings(refresh_interval_s=options.interval_ms / 1000),
        clock=SystemClock(),
        sleep=asyncio.sleep,
        in_flight=lambda _address: 0,
        log=print,
    )
    scraper.sync(endpoints)
    scraper.start()
    await asyncio.sleep(1)
    pages, cpu, began = counter.pages, time.process_time(), time.perf_counter()
    await asyncio.sleep(options.seconds)
    pages, cpu, took = counter.pages - pages, time.process_time() - cpu, time.perf_counter() - began
    await scraper.stop()
    await pool.close()
    print(
        f"{options.endpoints} endpoints each {options.interval_ms} ms: {pages / took:.0f} pages/s, "
        f"{counter.failures} failures, {cpu / took:.2f} cores, {cpu / pages * 1e6:.0f} µs a page all in"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoints", type=int, default=100)
    parser.add_argument("--interval-ms", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    measure_pages()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    uvloop.run(scrape(ours.recv(), options))
    server.terminate()
    server.join()


if __name__ == "__main__":
    main()
