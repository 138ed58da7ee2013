"""D12 (PS i749, i420): dead nodes got requests. D13 (Infera i82): failures were not remembered. D18 (LR i402): bare 502."""

import asyncio

from epp.config.settings import HealthSettings
from epp.director.types import EndReason, Failure, FailureKind
from epp.endpoints.types import EndpointMetrics
from tests.director.core import Pool
from tests.e2e.kit import free_port

E1, E2 = "10.0.0.1:8000", "10.0.0.2:8000"
PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


async def test_d12_ten_requests_all_end_at_the_endpoint_that_lives_and_the_dead_one_is_ejected(
    recorder, route
):
    alive, dead = await recorder(), f"127.0.0.1:{free_port()}"
    router = await route(f"http://{dead}", alive, health=HealthSettings(eject_after=1, ejection_time_s=60.0))
    answers = [await router.client.post("/v1/completions", json={"prompt": str(n)}) for n in range(10)]

    assert [answer.status_code for answer in answers] == [200] * 10
    assert {answer.headers["x-epp-endpoint"] for answer in answers} == {alive.address}
    assert len(alive.relayed()) == 10
    assert await router.sample("epp_endpoint_ejected", endpoint=dead) == 1


def fail(pool, now):
    """One request that goes to E1, where the connection breaks; where it went then."""
    exchange, target = pool.send(PROMPT, now)
    assert target.address == E1
    following = pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), now)
    pool.answer(exchange, now=now)
    return following.address


def test_d13_an_endpoint_that_breaks_three_times_is_left_alone_until_one_probe_succeeds():
    pool = Pool(n=2)
    first, second = pool.endpoint(1), pool.endpoint(2)
    for e, waiting in ((first, 0.0), (second, 9.0)):
        metrics = EndpointMetrics(waiting=waiting, running=0.0, kv_usage=0.0)
        pool.core.upkeep.on_metrics(e.address, e.incarnation, metrics, 1.0)
    went = [fail(pool, now) for now in (1.0, 1.1, 1.2)]
    meanwhile = [pool.send(PROMPT, now)[1].address for now in (1.3, 2.0, 4.0, 6.1)]
    probe, target = pool.send(PROMPT, 6.3)
    beside = pool.send(PROMPT, 6.3)[1].address
    pool.director.on_response_head(probe, 200, 6.4)
    pool.director.on_end(probe, EndReason.COMPLETE, 6.4)
    after = pool.send(PROMPT, 6.5)[1].address

    assert went == [E2, E2, E2]
    assert meanwhile == [E2, E2, E2, E2]
    assert (target.address, beside, after) == (E1, E2, E1)


async def test_d18_endpoints_of_which_none_can_be_reached_are_an_error_with_a_reason(route):
    router = await route(f"http://127.0.0.1:{free_port()}")
    answer = await router.client.post("/v1/completions", json={"prompt": "a"})
    ready = await router.client.get("/readyz")

    assert answer.status_code == 502
    assert answer.headers["x-llm-d-request-dropped-reason"] == "upstream-connect-failed"
    assert answer.json()["error"]["code"] == "upstream_connect_failed"
    assert ready.status_code == 503
    assert ready.json()["reasons"] == ["no endpoint is ready; detail says why for each"]


async def test_d18_an_endpoint_that_says_503_while_it_loads_is_no_502(theatre):
    endpoint, router = theatre
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"prompt": "a"}))
    await (await endpoint.call()).answer(b'{"error":"loading"}', b"503 Service Unavailable")
    answer = await asking

    assert (answer.status_code, answer.content) == (503, b'{"error":"loading"}')
