"""Pages of other origins, as browsers ask for them."""

import pytest

from epp.config.cors_settings import CorsSettings
from epp.config.security_settings import ApiKeySettings
from epp.config.web_origin import parse_origin
from epp.security import parse_keys
from tests.regressions.kit import Recorder

PAGE = "https://chat.example"
CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}
ASKING = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


def told(answer):
    """What a browser goes by."""
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.fixture(params=["fast", "asgi"])
def start(request, stack, route):
    """Starts an endpoint and a router that lets pages of `PAGE` read, if `origins` do not say otherwise."""

    async def begin(*origins, **settings):
        endpoint = await stack.enter_async_context(Recorder())
        cors = CorsSettings(tuple(map(parse_origin, origins or (PAGE,))))
        router = await route(endpoint, lane=request.param, cors=cors, **settings)
        await router.know("m")
        return endpoint, router

    return begin


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/health", "/v1/files"])
async def test_a_preflight_is_answered_here(start, path):
    endpoint, router = await start()

    answer = await router.client.options(path, headers=ASKING)

    assert answer.status_code == 204
    assert told(answer) == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "POST",
        "access-control-allow-headers": "authorization,content-type",
        "access-control-max-age": "600",
    }
    assert "Origin" in answer.headers["vary"]
    assert endpoint.relayed() == []


async def test_a_preflight_needs_no_key(start):
    _, router = await start(api_keys=ApiKeySettings(key=parse_keys("team=secret-key-of-a-client")))

    assert told(await router.client.options(CHAT, headers=ASKING))["access-control-allow-origin"] == PAGE
    refused = await router.client.post(CHAT, json=BODY, headers={"origin": PAGE})
    assert refused.status_code == 401
    assert told(refused)["access-control-allow-origin"] == PAGE


async def test_an_answer_may_be_read_by_its_page_whoever_gave_it(start):
    _, router = await start()
    headers = {"origin": PAGE}

    answers = [
        await router.client.post(CHAT, json=BODY, headers=headers),
        await router.client.get("/v1/models", headers=headers),
        await router.client.post(CHAT, json={**BODY, "model": "nobody"}, headers=headers),
        await router.client.get("/v1/files", headers=headers),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 404, 200]
    for answer in answers:
        assert answer.headers.get_list("vary") == ["Origin"]
        assert told(answer) == {
            "access-control-allow-origin": PAGE,
            "access-control-expose-headers": "x-request-id, x-epp-endpoint, x-epp-decision, "
            "x-llm-d-request-dropped-reason, retry-after",
        }


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://chat.example"])
async def test_other_pages_are_told_nothing(start, origin):
    _, router = await start()

    asked = await router.client.options(CHAT, headers={**ASKING, "origin": origin})
    read = await router.client.post(CHAT, json=BODY, headers={"origin": origin})

    assert (told(asked), told(read)) == ({}, {})
    assert read.status_code == 200


async def test_any_page_may_read_where_the_star_stands(start):
    _, router = await start("*")

    answer = await router.client.post(CHAT, json=BODY, headers={"origin": "http://localhost:3000"})

    assert told(answer)["access-control-allow-origin"] == "http://localhost:3000"


async def test_routes_for_operators_are_for_no_page(start):
    _, router = await start()

    answers = [
        await router.client.get(path, headers={"origin": PAGE}) for path in ("/metrics", "/debug/state")
    ]

    assert [told(answer) for answer in answers] == [{}, {}]


async def test_requests_that_no_page_made_are_as_they_were(start):
    endpoint, router = await start()

    answer = await router.client.post(CHAT, json=BODY)
    options = await router.client.options(CHAT)

    assert (answer.status_code, told(answer)) == (200, {})
    assert [asked.method for asked in endpoint.relayed()] == ["POST", "OPTIONS"]
    assert options.status_code == 200


@pytest.mark.parametrize("lane", ["fast", "asgi"])
async def test_without_origins_endpoints_answer_preflights(stack, route, lane):
    endpoint = await stack.enter_async_context(Recorder())
    router = await route(endpoint, lane=lane)
    await router.know("m")

    relayed = await router.client.options(CHAT, headers=ASKING)
    models = await router.client.options("/v1/models", headers=ASKING)

    assert (relayed.status_code, models.status_code) == (200, 405)
    assert [asked.method for asked in endpoint.relayed()] == ["OPTIONS"]
