"""D16 (llm-d p1564; ThunderAgent p35) and T10: an idle connection was reused as the endpoint closed it, and 502 followed."""

import asyncio

from epp.config import Settings


def test_our_idle_connections_are_closed_before_vllm_closes_them():
    assert Settings().upstream.keep_alive_s == 3.0  # vLLM's uvicorn: 5 s


async def ask(router, number):
    return await router.client.post("/v1/completions", json={"model": "m", "prompt": str(number)})


async def test_a_hundred_kept_connections_that_close_on_reuse_cost_nobody_an_answer(theatre):
    endpoint, router = theatre
    statuses = []
    for number in range(100):
        asking = asyncio.create_task(ask(router, number))
        call = await endpoint.call()
        if number:  # a kept connection: the endpoint gives it up as the request comes
            call.close()
            call = await endpoint.call()
        await call.answer()
        statuses.append((await asking).status_code)
    # Each number came once on a connection that died before a byte, and once on a fresh one.
    executed = [asked.body for asked in endpoint.relayed()]

    assert statuses == [200] * 100
    assert len(executed) == 199
    assert await router.sample("epp_retries_total", kind="closed-reused") == 99
    assert await router.sample("epp_ejections_total") == 0


async def test_a_connection_that_is_closed_while_idle_is_not_used_again(theatre):
    endpoint, router = theatre
    for number in range(3):
        asking = asyncio.create_task(ask(router, number))
        call = await endpoint.call()
        await call.answer()
        assert (await asking).status_code == 200
        call.close()
        await call.writer.wait_closed()
        for _ in range(20):
            await router.client.get("/healthz")

    assert len(endpoint.relayed()) == 3
    assert await router.sample("epp_retries_total") == 0
