"""J06 (LR p1916): a length field from the wire overflowed. 4 GiB announced, in each place where a length can stand."""

import tracemalloc

import pytest

from epp.proxy.frames import FrameTracker
from tests.regressions.kit import in_flight, raw_client

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("framing", "status"),
    [
        (b"Content-Length: 4294967296\r\n\r\n", 413),
        (b"Content-Length: 18446744073709551616\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", 400),
    ],
)
async def test_what_is_announced_is_refused_and_nothing_is_taken_for_it(stage, framing, status):
    endpoint, router = stage
    tracemalloc.start()
    try:
        async with await raw_client(router) as client:
            await client.send(HEAD + framing)
            response = await client.read_response()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert response.status == status
    assert peak < 8 << 20
    assert endpoint.relayed() == []
    assert await in_flight(router) == 0


async def test_a_chunk_of_4_gib_takes_what_has_come_of_it_and_no_more(stage):
    _, router = stage
    async with await raw_client(router) as client:
        await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n100000000\r\n{")
        tracemalloc.start()
        await router.client.get("/healthz")
        held = await router.sample("epp_buffered_bytes")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert held == 1
    assert peak < 16 << 20


def test_a_frame_of_4_gib_is_followed_without_being_held():
    tracemalloc.start()
    try:
        tracker = FrameTracker()
        tracker.feed(b"\x82\x7f" + (1 << 32).to_bytes(8, "big") + bytes(1 << 16))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert not tracker.between_frames
    assert held < 1 << 16
