"""Health, debugging, `/pick` and refusals of a running router."""

import pytest

from epp.config.leaf import Secret
from tests.e2e.kit import LONG_TEXT, chat, eventually, free_port

ELSEWHERE = {"x-forwarded-for": "192.0.2.1"}


@pytest.fixture
async def router(fleet, route):
    """One server whose model is known; the admin key is `open-sesame`."""
    [server] = await fleet()
    router = await route(server, admin_key=Secret("open-sesame"))
    await router.know("sim/llama-8b")
    return router


async def test_it_is_ready_when_an_endpoint_is(router):
    answer = await router.client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert answer.json()["reasons"] == []
    assert list(answer.json()["detail"]["endpoints"].values()) == ["ready"]


async def test_it_is_not_ready_when_no_endpoint_is_and_says_why_for_each(route):
    dead = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    router = await route(*[f"http://{address}" for address in dead])

    async def refused():
        answer = await router.client.get("/readyz")
        return answer if answer.status_code == 503 else None

    answer = await eventually(refused)

    assert answer.json()["reasons"] == ["no endpoint is ready; detail says why for each"]
    assert set(answer.json()["detail"]["endpoints"]) == set(dead)
    assert (await router.client.get("/healthz")).status_code == 200
    assert (await router.client.get("/health")).status_code == 503
    assert (await router.client.get("/ping")).status_code == 503


@pytest.mark.parametrize("path", ["/health", "/ping"])
async def test_the_probes_of_vllm_are_answered_for_the_pool(router, path):
    answer = await router.client.get(path)

    assert (answer.status_code, answer.content) == (200, b"")


async def test_version_is_the_routers(router):
    assert (await router.client.get("/version")).json() == {"version": "0.1.0", "server": "epp"}


async def test_models_are_the_endpoints_entries(router):
    listed = (await router.client.get("/v1/models")).json()

    assert listed["object"] == "list"
    assert [(model["id"], model["owned_by"]) for model in listed["data"]] == [("sim/llama-8b", "vllm")]


@pytest.mark.parametrize("path", ["/debug/decisions", "/debug/state", "/debug/config"])
async def test_debug_is_for_loopback_and_for_holders_of_the_key(router, path):
    statuses = {
        name: (await router.client.get(path, headers=headers)).status_code
        for name, headers in {
            "loopback": {},
            "through a proxy": ELSEWHERE,
            "standard header": {"forwarded": "for=192.0.2.1"},
            "with the key": ELSEWHERE | {"x-epp-admin-key": "open-sesame"},
            "with another": ELSEWHERE | {"x-epp-admin-key": "open"},
        }.items()
    }

    assert statuses == {
        "loopback": 200,
        "through a proxy": 403,
        "standard header": 403,
        "with the key": 200,
        "with another": 403,
    }


async def test_a_receipt_in_a_header_is_for_the_same_callers(router):
    wanted = {"x-epp-explain": "1"}

    here = await router.chat(headers=wanted)
    elsewhere = await router.chat(headers=wanted | ELSEWHERE)
    unasked = await router.chat()

    assert " hit=gpu:0,cpu:0 candidates=1 " in here.headers["x-epp-decision"]
    assert "x-epp-decision" not in elsewhere.headers
    assert "x-epp-decision" not in unasked.headers
    assert {"x-epp-endpoint"} <= set(elsewhere.headers)


async def test_a_decision_is_kept_with_its_receipt(router):
    await router.chat(LONG_TEXT, headers={"x-request-id": "a"})
    await router.chat(LONG_TEXT, headers={"x-request-id": "b"})

    older, newer = await router.decisions(2)

    assert (older["request_id"], newer["request_id"]) == ("a", "b")
    [candidate] = newer["receipt"]["candidates"]
    assert candidate["endpoint"] == newer["receipt"]["picked"]
    assert candidate["predicted_hit_tokens"]["gpu"] > 2000
    assert sorted(candidate["scores"]) == [
        "active-request-scorer",
        "cpu-prefix-cache-scorer",
        "gpu-prefix-cache-scorer",
        "kv-cache-utilization-scorer",
    ]
    assert candidate["scores"]["active-request-scorer"]["weight"] == 2.0


async def test_the_configuration_in_effect_is_shown_without_secrets(router):
    answer = await router.client.get("/debug/config")

    assert answer.json()["profiles"]
    assert "open-sesame" not in answer.text


async def test_a_pick_tells_where_and_why_and_changes_nothing(router):
    before = (await router.client.get("/debug/state")).json()

    first = (await router.client.post("/pick", json=chat(LONG_TEXT))).json()
    again = (await router.client.post("/pick", json=chat(LONG_TEXT))).json()
    after = (await router.client.get("/debug/state")).json()

    assert first["endpoints"] == [before["endpoints"][0]["url"].removeprefix("http://")]
    assert first["receipt"] == again["receipt"]
    assert first["receipt"]["candidates"][0]["predicted_hit_tokens"] == {"gpu": 0, "cpu": 0}
    assert after["picks"] == before["picks"]
    assert after["index"] == before["index"]
    assert after["endpoints"][0]["requests"] == 0


async def test_a_committed_pick_is_noted_in_the_index_alone(router):
    await router.client.post("/pick?commit=1", json=chat(LONG_TEXT))

    found = (await router.client.post("/pick", json=chat(LONG_TEXT))).json()
    [endpoint] = (await router.client.get("/debug/state")).json()["endpoints"]

    assert found["receipt"]["candidates"][0]["predicted_hit_tokens"]["gpu"] > 2000
    assert (endpoint["requests"], endpoint["tokens"]) == (0, 0)


async def test_a_pick_from_elsewhere_tells_only_where(router):
    answer = await router.client.post("/pick", json=chat(), headers=ELSEWHERE)

    assert list(answer.json()) == ["endpoints"]


async def test_a_pick_can_be_for_another_path(router):
    body = {"prompt": list(range(1000, 1064)), "max_tokens": 1}

    answer = await router.client.post("/pick", json=body, headers={"x-epp-path": "/v1/completions?x=1"})

    assert answer.json()["receipt"]["prompt_tokens"] == 64


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "bad_request"),
        (b'{"model": "gpt-17", "messages": []}', 404, "model_not_found"),
        (b'{"model": 17, "messages": []}', 400, "bad_request"),
    ],
)
async def test_a_pick_refuses_what_the_proxy_refuses(router, content, status, code):
    picked = await router.client.post("/pick", content=content)
    proxied = await router.client.post("/v1/chat/completions", content=content)

    assert picked.status_code == proxied.status_code == status
    assert picked.json() == proxied.json()
    assert picked.json()["error"]["code"] == code


async def test_a_pick_reads_no_more_than_a_request_may_have(fleet, route):
    [server] = await fleet()
    router = await route(server, max_request_bytes=1000)

    answer = await router.client.post("/pick", json=chat("x" * 1000))

    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "payload_too_large"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/debug/nothing", 404, "route_not_found"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("GET", "/pick", 405, "method_not_allowed"),
        ("GET", "/debug/decisions?limit=0", 400, "bad_request"),
        ("GET", "/debug/state?index=perhaps", 400, "bad_request"),
    ],
)
async def test_errors_of_the_control_surface_have_openais_shape(router, method, path, status, code):
    answer = await router.client.request(method, path, headers={"x-request-id": "mine"})

    assert answer.status_code == status
    assert sorted(answer.json()["error"]) == ["code", "message", "param", "type"]
    assert answer.json()["error"]["code"] == code
    assert answer.headers["x-request-id"] == "mine"


async def test_openapi_lists_what_is_relayed_beside_what_is_served(router):
    paths = (await router.client.get("/openapi.json")).json()["paths"]

    assert {"/healthz", "/readyz", "/metrics", "/pick", "/debug/decisions", "/v1/models"} <= set(paths)
    assert paths["/v1/chat/completions"]["post"]["tags"] == ["relayed"]
    assert paths["/v1/completions"]["post"]["tags"] == ["relayed"]


@pytest.mark.parametrize(
    "path", ["/sleep", "/reset_prefix_cache", "/v1/load_lora_adapter", "/fault_tolerance/x"]
)
async def test_administration_of_the_engines_is_closed(router, path):
    answer = await router.client.post(path)

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "route_closed"


async def test_administration_of_the_engines_can_be_opened(fleet, route):
    [server] = await fleet(dev_mode=True)
    router = await route(server, allow_engine_admin=True)

    answer = await router.client.post("/reset_prefix_cache")

    assert answer.json() == {"success": True}


async def test_paths_that_only_the_engine_knows_are_relayed(router):
    tokens = await router.client.post("/tokenize", json={"prompt": "Hello"})
    unknown = await router.client.get("/v1/nothing")
    decisions = await router.decisions(2)

    assert tokens.json()["count"] > 0
    assert tokens.headers["x-epp-endpoint"] == unknown.headers["x-epp-endpoint"]
    assert unknown.json() == {"detail": "Not Found"}
    hits = [d["receipt"]["candidates"][0]["predicted_hit_tokens"] for d in decisions]
    assert hits == [{"gpu": 0, "cpu": 0}, {"gpu": None, "cpu": None}]
