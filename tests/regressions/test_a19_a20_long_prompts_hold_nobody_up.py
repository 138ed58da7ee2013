"""A19 (LL i36429): work on long prompts starved the probes. A20 (LR p2197): inline images were decoded whole.

What it costs in time is measured by bench/health_latency.py; here is what makes it so.
"""

import asyncio
import base64
import json
import tracemalloc

from epp.director.types import RequestHead
from tests.director.core import Pool
from tests.e2e.kit import eventually
from tests.regressions.kit import in_flight, post, raw_client

MIB = 1 << 20


def test_a19_a_prompt_of_5_mib_is_hashed_in_steps_of_a_mebibyte():
    pool = Pool(n=1)
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 1.0)
    body = json.dumps({"model": "m", "prompt": "a" * (5 * MIB)}).encode()
    no_cap = pool.config.replace("blockSize: 64", "blockSize: 64, maxPrefixTokensToMatch: 0")
    uncapped = Pool(n=1, config=no_cap)
    steps = len(list(pool.director.prepare(exchange, body, 1.0)))
    all_steps = len(list(uncapped.director.prepare(uncapped.director.open(exchange.head, 1.0), body, 1.0)))

    assert steps >= 1 + 6 + 1 + 5  # it is here; elements counted; decoded; text written
    assert all_steps - steps == 2 * 5  # by default no more than 131,072 tokens are hashed, half a mebibyte


def test_a19_a_batch_of_2048_inputs_is_looked_up_by_its_first_64():
    pool = Pool(n=1)
    inputs = {"model": "m", "input": [f"{number % 1000:03} " * 64 for number in range(2048)]}
    exchange = pool.open(inputs, path="/v1/embeddings")
    pool.director.pick(exchange, 1.0)

    assert len(exchange.chains.by_block_bytes[64]) == 64
    assert len(exchange.hold.touches) == 2 * 64  # a view each
    assert exchange.prompt_tokens == 2048 * 64


async def test_a19_clients_that_leave_all_at_once_leave_nothing_and_the_probe_is_answered(theatre):
    endpoint, router = theatre
    body = b'{"model":"m","stream":true,"prompt":"%b"}' % (b"a" * (2 * MIB))
    clients = [await raw_client(router) for _ in range(6)]
    await asyncio.gather(*[client.send(post(body, b"/v1/completions")) for client in clients])
    calls = [await endpoint.call() for _ in clients]
    for call in calls:
        await call.stream(b"data: {}\n\n")
    for client in clients:
        await client.read_until(b"data: {}")
    assert await in_flight(router) == 6
    for client in clients:
        client.leave()
    answers = [await router.client.get("/healthz") for _ in range(10)]

    assert {answer.status_code for answer in answers} == {200}
    for call in calls:
        await call.closed_by_router()

    async def none():
        return await in_flight(router) == 0

    await eventually(none)
    assert await router.sample("epp_buffered_bytes") == 0


def test_a20_inline_images_are_hashed_and_not_decoded():
    image = base64.b64encode(bytes(range(256)) * (2 * MIB // 256)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    content = [{"type": "text", "text": "What is it?"}, part, part, part]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    pool = Pool(n=1)
    tracemalloc.start()
    try:
        exchange = pool.open(body, path="/v1/chat/completions")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert exchange.chains.data_bytes < 16_384
    assert peak < 2 * len(body)
    assert held < MIB
