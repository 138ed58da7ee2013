"""T13: five attempts in 0.4 s, all at one server, for 429 too. T14: one dead server of four, and a quarter failed."""

import asyncio

import pytest

from epp.config.settings import HealthSettings
from tests.e2e.kit import eventually, free_port
from tests.regressions.kit import first_call

RETRY_AFTER = b"retry-after: 7\r\n"


@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"500 Internal Server Error"])
async def test_t13_429_and_500_pass_with_retry_after_after_one_attempt(scripted, route, status):
    endpoints = await scripted(4)
    router = await route(*endpoints)
    await router.know("m")
    for _ in range(5):
        asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
        await (await first_call(endpoints))[0].answer(b'{"error":{"message":"no"}}', status, RETRY_AFTER)
        answer = await asking
        assert (answer.status_code, answer.headers["retry-after"]) == (int(status[:3]), "7")
        assert answer.content == b'{"error":{"message":"no"}}'

    assert sum(len(endpoint.relayed()) for endpoint in endpoints) == 5


async def test_t13_503_is_tried_at_three_different_servers_and_the_last_answer_passes(scripted, route):
    endpoints = await scripted(4)
    router = await route(*endpoints)
    await router.know("m")
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    left = endpoints
    for _ in range(3):
        call, left = await first_call(left)
        await call.answer(b"{}", b"503 Service Unavailable", RETRY_AFTER)
    answer = await asking

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert sorted(len(endpoint.relayed()) for endpoint in endpoints) == [0, 1, 1, 1]


async def test_t14_with_one_dead_server_of_four_nobody_gets_an_error_and_it_is_ejected(recorder, route):
    alive, dead = [await recorder() for _ in range(3)], f"127.0.0.1:{free_port()}"
    router = await route(f"http://{dead}", *alive, health=HealthSettings(ejection_time_s=60.0))

    async def ask(number):
        return await router.client.post("/v1/completions", json={"model": "m", "prompt": f"{number} " * 300})

    answers = [await ask(number) for number in range(40)]

    async def ejected():
        return await router.sample("epp_endpoint_ejected", endpoint=dead) == 1

    await eventually(ejected)
    decisions = await router.decisions(40)
    later = [await ask(number) for number in range(40, 60)]

    assert {answer.status_code for answer in (*answers, *later)} == {200}
    assert sum(decision["attempts"] - 1 for decision in decisions) <= 3
    assert [d["attempts"] for d in await router.decisions(20)] == [1] * 20
