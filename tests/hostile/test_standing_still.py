"""A router that stood still (suspended, throttled, without a core) blames nobody for what it did not see.

When it goes on, all deadlines are over in the first turn of the loop, and most things take several.
"""

import asyncio
import os
import time

import pytest

from epp.http import Origin, UpstreamPool, UpstreamRequest, UpstreamSettings, fetch
from epp.proxy import ProxySettings
from tests.hostile.kit import StrictEndpoint

SHORT = ProxySettings(head_timeout_s=0.1, body_timeout_s=0.1, keep_alive_s=0.1)
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"


def send_now(client, data):
    """Send without a turn of the loop."""
    os.write(client.writer.get_extra_info("socket").fileno(), data)


def stand_still():
    time.sleep(0.4)


async def some_turns(count=10):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(HEAD, b"\r\n{}"), (HEAD + b"\r\n", b"{}"), (HEAD + b"\r\n{", b"}"), (b"", HEAD + b"\r\n{}")],
    ids=["rest of a head", "body", "rest of a body", "first request"],
)
async def test_what_a_client_sent_meanwhile_is_in_time(open_front, before, meanwhile):
    async with open_front(SHORT) as f, await f.client() as client:
        await client.send(before)
        await some_turns()
        send_now(client, meanwhile)
        stand_still()
        assert (await client.read_response()).status == 200
        assert f.endpoint.got == [(b"POST /v1/completions", b"{}")]


async def test_a_request_sent_meanwhile_on_a_kept_connection_is_served(open_front):
    async with open_front(SHORT) as f, await f.client() as client:
        for expected in (1, 2):
            send_now(client, HEAD + b"\r\n{}")
            if expected == 2:
                stand_still()
            assert (await client.read_response()).status == 200
            assert len(f.endpoint.got) == expected


@pytest.mark.parametrize("turns", range(8))
async def test_an_endpoint_that_was_dialled_meanwhile_is_connected(turns):
    pool = UpstreamPool(UpstreamSettings(connect_timeout_s=0.1))
    async with StrictEndpoint() as endpoint:
        origin = Origin("http", "127.0.0.1", endpoint.port)
        request = UpstreamRequest(b"GET", b"/", [], b"")
        scrape = asyncio.create_task(fetch(pool, origin, request, timeout_s=0.1, max_bytes=100))
        await some_turns(turns)
        stand_still()
        assert (await scrape).status == 200
        await pool.close()
