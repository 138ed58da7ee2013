"""Asking through a real pool."""

from epp.http import Origin, UpstreamPool, UpstreamRequest, UpstreamSettings
from epp.scrape.probing import fetch_through
from tests.http.servers import answering, endpoint


async def test_fetch_goes_through_the_pool_and_reuses_its_connection():
    async with endpoint(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as origin:
        pool = UpstreamPool(UpstreamSettings())
        fetch = fetch_through(pool)
        request = UpstreamRequest(b"GET", b"/metrics", [], b"")
        bodies = [
            (await fetch(Origin("http", origin.host, origin.port), request, 5.0)).body for _ in range(2)
        ]
        stats = pool.stats()
        await pool.close()

    assert bodies == [b"ok", b"ok"]
    assert (stats.opened_total, stats.reused_total) == (1, 1)
