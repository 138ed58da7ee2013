"""Routes of the control surface and the shape of its errors."""

import json

import pytest

from epp.api.ports import Readiness
from tests.api.surface import A, B, Surface

ELSEWHERE = ("203.0.113.9", 1234)
UNCAPPED = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
  parameters: {maxPrefixTokensToMatch: 0}
"""


async def test_liveness_says_nothing_of_endpoints():
    surface = Surface(readiness=lambda: Readiness(False, ("nobody",)))

    answer = await surface.ask("GET", "/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("state", "status", "body"),
    [
        (Readiness(True), 200, {"ready": True, "reasons": [], "detail": {}}),
        (
            Readiness(False, ("shutting down",), {"endpoints": {}}),
            503,
            {"ready": False, "reasons": ["shutting down"], "detail": {"endpoints": {}}},
        ),
    ],
)
async def test_readiness_is_a_status_with_reasons(state, status, body):
    answer = await Surface(readiness=lambda: state).ask("GET", "/readyz")

    assert (answer.status_code, answer.json()) == (status, body)


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")])
async def test_the_probes_of_vllm_have_an_empty_answer(method, path):
    up = await Surface().ask(method, path)
    down = await Surface(readiness=lambda: Readiness(False)).ask(method, path)

    assert (up.status_code, up.content) == (200, b"")
    assert (down.status_code, down.content) == (503, b"")


async def test_the_version_is_told():
    answer = await Surface().ask("GET", "/version")

    assert answer.json() == {"version": "9.9.9", "server": "epp"}


async def test_models_are_listed_once_each():
    answer = await Surface().ask("GET", "/v1/models")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"object": "list", "data": [{"id": "m"}, {"id": "only-a"}]}


async def test_the_metrics_page_is_sent_as_it_is_made():
    answer = await Surface().ask("GET", "/metrics", client=ELSEWHERE)

    assert answer.text == "one 1\ntwo 2\n"
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize("path", ["/debug/decisions", "/debug/state", "/debug/config"])
async def test_debug_is_closed_to_others_and_says_what_opens_it(path):
    closed = await Surface().ask("GET", path, client=ELSEWHERE)
    opened = await Surface().ask("GET", path, client=ELSEWHERE, headers={"x-epp-admin-key": "key"})

    assert closed.status_code == 403
    assert "x-epp-admin-key" in closed.json()["error"]["message"]
    assert opened.status_code == 200


async def test_twenty_decisions_are_shown_unless_more_are_asked_for():
    surface = Surface()

    await surface.ask("GET", "/debug/decisions")
    answer = await surface.ask("GET", "/debug/decisions?limit=500")

    assert surface.decisions.limits == [20, 500]
    assert answer.json() == [{"request_id": "r-1"}]


async def test_the_state_holds_the_index_unless_it_is_not_wanted():
    surface = Surface()

    whole = (await surface.ask("GET", "/debug/state")).json()
    light = (await surface.ask("GET", "/debug/state?index=false")).json()

    assert "index" in whole
    assert "index" not in light
    assert [endpoint["url"] for endpoint in light["endpoints"]] == [f"http://{A}", f"http://{B}"]


async def test_the_configuration_is_shown():
    assert (await Surface().ask("GET", "/debug/config")).json() == {"profiles": []}


async def test_a_pick_uses_the_headers_and_the_path_of_the_request():
    body = {"model": "only-a", "prompt": "x"}

    answer = await Surface().ask("POST", "/pick", json=body, headers={"x-epp-path": "/v1/completions"})

    assert answer.json()["endpoints"] == [A]
    assert answer.json()["receipt"]["excluded"] == [{"endpoint": B, "reason": "serves another model"}]


async def test_a_pick_of_a_long_prompt_pauses_and_is_answered():
    body = {"model": "m", "messages": [{"role": "user", "content": "long " * 600_000}]}

    answer = await Surface(UNCAPPED).ask("POST", "/pick", json=body)

    assert answer.json()["receipt"]["prompt_tokens"] == 750_001


async def test_a_pick_stops_reading_at_the_limit():
    async def endless():
        while True:
            yield b"x" * 1000

    answer = await Surface(max_request_bytes=5000).ask("POST", "/pick", content=endless())

    assert answer.status_code == 413
    assert "maxRequestBytes (5000)" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "noted"), [("", 0), ("?commit=0", 0), ("?commit=1", 1), ("?commit=true", 1)]
)
async def test_only_a_commit_is_noted(query, noted):
    surface = Surface()
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 4000}]}

    await surface.ask("POST", f"/pick{query}", json=body)
    index, views = surface.core.state.index, surface.core.state.views
    held = [
        index.blocks(view.index_view, e.slot) for view in views for e in surface.core.table.pool.endpoints
    ]

    assert sum(count > 0 for count in held) == noted * len(views)


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/nothing", 404, ("invalid_request_error", "route_not_found")),
        ("DELETE", "/healthz", 405, ("invalid_request_error", "method_not_allowed")),
        ("GET", "/debug/decisions?limit=x", 400, ("invalid_request_error", "bad_request")),
        ("POST", "/pick", 400, ("invalid_request_error", "bad_request")),
    ],
)
async def test_errors_have_openais_shape_and_an_id(method, path, status, error):
    answer = await Surface().ask(method, path)

    found = answer.json()["error"]
    assert answer.status_code == status
    assert (found["type"], found["code"]) == error
    assert len(answer.headers["x-request-id"]) == 32


@pytest.mark.parametrize(("path", "methods"), [("/healthz", "GET"), ("/pick", "POST")])
async def test_a_method_that_a_route_has_not_is_answered_with_those_it_has(path, methods):
    answer = await Surface().ask("DELETE", path)

    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


async def test_a_wrong_parameter_is_named():
    answer = await Surface().ask("GET", "/debug/decisions?limit=0", headers={"x-request-id": "mine"})

    assert answer.json()["error"]["param"] == "query.limit"
    assert answer.json()["error"]["message"].startswith("query.limit: ")
    assert answer.headers["x-request-id"] == "mine"


async def test_a_fault_of_our_own_is_500_in_the_same_shape_and_tells_nothing():
    def broken():
        raise RuntimeError("prompt of somebody")

    answer = await Surface(configuration=broken).ask("GET", "/debug/config")

    assert answer.status_code == 500
    assert answer.json() == {
        "error": {
            "message": "internal error",
            "type": "internal_error",
            "param": None,
            "code": "internal_error",
        },
        "type": "error",
    }


async def test_openapi_names_every_operation_once_and_lists_relayed_routes():
    surface = Surface()

    page = (await surface.ask("GET", "/openapi.json")).json()
    again = (await surface.ask("GET", "/openapi.json")).json()
    operations = [o for path in page["paths"].values() for o in path.values()]
    ids = [operation["operationId"] for operation in operations if "operationId" in operation]

    assert page == again
    assert len(ids) == len(set(ids))
    assert page["info"]["title"] == "epp"
    assert page["paths"]["/v1/chat/completions"]["post"]["summary"] == "Chat"
    assert json.dumps(page).count('"relayed"') == 2


async def test_the_interactive_page_is_served():
    assert (await Surface().ask("GET", "/docs")).status_code == 200
