"""B19 (PS i749): a backend that never answers held up others; or 5 s of waiting for a long prefill were too many."""

import asyncio

from epp.config.settings import UpstreamSettings
from epp.http import UpstreamSettings as PoolSettings
from tests.regressions.kit import first_call


async def test_it_is_504_at_the_first_byte_timeout_and_others_are_served_meanwhile(scripted, route):
    endpoints = await scripted(2)
    router = await route(*endpoints, upstream=UpstreamSettings(first_byte_timeout_s=2.0))
    await router.know("m")
    hanging = [
        asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"})) for _ in range(2)
    ]
    for endpoint in endpoints:
        await endpoint.call()
    served = asyncio.create_task(router.client.get("/v1/x"))
    call, _ = await first_call(endpoints)
    await call.answer()
    assert (await served).status_code == 200
    answers = await asyncio.gather(*hanging)

    assert [answer.status_code for answer in answers] == [504, 504]
    assert {answer.headers["x-llm-d-request-dropped-reason"] for answer in answers} == {"upstream-timeout"}
    assert [len(endpoint.relayed()) for endpoint in endpoints] in ([1, 2], [2, 1])


def test_by_default_a_prefill_may_take_ten_minutes():
    assert PoolSettings().first_byte_timeout_s == 600.0
    assert UpstreamSettings().first_byte_timeout_s == 600.0
