"""A05 (agentgateway i2402, i2621): gzip was called invalid JSON, by one reader after the other."""

import gzip
import tracemalloc
import zlib

import pytest

from epp.errors import PayloadTooLargeError
from epp.request import decode_body
from tests.e2e.kit import LONG_TEXT

BODY = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % LONG_TEXT.encode()
TWICE = gzip.compress(gzip.compress(BODY, mtime=0), mtime=0)


async def ask(router, body, coding):
    headers = {"content-type": "application/json", "content-encoding": coding}
    return await router.client.post("/v1/chat/completions", content=body, headers=headers)


async def test_gzip_and_deflate_are_routed_by_their_content_and_forwarded_as_they_came(stage):
    endpoint, router = stage
    sent = [
        (gzip.compress(BODY, mtime=0), "gzip"),
        (zlib.compress(BODY), "deflate"),
        (BODY, "identity"),
        (TWICE, "gzip, gzip"),
    ]
    statuses = [(await ask(router, body, coding)).status_code for body, coding in sent]
    decisions = await router.decisions(4)

    assert statuses == [200, 200, 200, 200]
    assert [(asked.body, asked.headers["content-encoding"]) for asked in endpoint.relayed()] == sent
    assert [decision["predicted_gpu"] > 2000 for decision in decisions] == [False, True, True, True]


async def test_other_codings_are_415_and_broken_data_400(stage):
    endpoint, router = stage
    answers = [
        await ask(router, BODY, "zstd"),
        await ask(router, BODY, "br"),
        await ask(router, BODY, "gzip"),
        await ask(router, gzip.compress(BODY)[:-9], "gzip"),
    ]

    assert [answer.status_code for answer in answers] == [415, 415, 400, 400]
    assert endpoint.relayed() == []


async def test_a_bomb_is_413_and_reaches_no_endpoint(recorder, route):
    endpoint = await recorder()
    router = await route(endpoint, max_inflated_bytes=100_000)
    answer = await ask(router, gzip.compress(b"[" * 10_000_000), "gzip")

    assert answer.status_code == 413
    assert endpoint.relayed() == []


def test_a_bomb_costs_no_more_memory_than_the_limit():
    inner = zlib.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLargeError):
            decode_body("deflate", inner, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 << 20
