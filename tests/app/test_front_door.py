"""Which application serves a path."""

import json

import pytest

from epp.api.access import ADMIN_LISTENER
from epp.app.front_door import ENGINE_ADMIN_PATHS, FrontDoor, admin_door
from tests.app.asgi import Lifespan, call, named


def door(*, control_here=True, allow_engine_admin=False, lifespan=None):
    made = FrontDoor(control_here=control_here, allow_engine_admin=allow_engine_admin, lifespan=lifespan)
    made.attach(named("relay"), named("control"))
    return made


@pytest.mark.parametrize(
    ("path", "served_by"),
    [
        ("/healthz", "control"),
        ("/readyz", "control"),
        ("/health", "control"),
        ("/ping", "control"),
        ("/version", "control"),
        ("/v1/models", "control"),
        ("/metrics", "control"),
        ("/pick", "control"),
        ("/docs", "control"),
        ("/openapi.json", "control"),
        ("/debug/decisions", "control"),
        ("/debug/anything", "control"),
        ("/v1/chat/completions", "relay"),
        ("/v1/models/one", "relay"),
        ("/debugger", "relay"),
        ("/healthz/", "relay"),
        ("/", "relay"),
    ],
)
async def test_pool_and_control_paths_are_ours_and_all_others_are_relayed(path, served_by):
    answer = await call(door(), path)

    assert answer.body.decode() == f"{served_by} {path}"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/health", "/ping", "/version", "/v1/models"])
async def test_with_an_admin_listener_pool_paths_stay(path):
    answer = await call(door(control_here=False), path)

    assert answer.body.decode() == f"control {path}"


@pytest.mark.parametrize("path", ["/metrics", "/pick", "/docs", "/redoc", "/openapi.json", "/debug/state"])
async def test_with_an_admin_listener_control_paths_are_closed(path):
    answer = await call(door(control_here=False), path, headers={"x-request-id": "mine"})

    assert answer.status == 403
    assert answer.headers["x-request-id"] == "mine"
    assert json.loads(answer.body)["error"]["message"] == "this route is served on the admin port"


@pytest.mark.parametrize("path", [*sorted(ENGINE_ADMIN_PATHS), "/fault_tolerance/kill"])
async def test_administration_of_the_engines_is_closed_unless_allowed(path):
    closed = await call(door(), path, method="POST")
    opened = await call(door(allow_engine_admin=True), path, method="POST")

    assert closed.status == 403
    assert json.loads(closed.body)["error"]["code"] == "route_closed"
    assert opened.body.decode() == f"relay {path}"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/readyz"])
async def test_before_something_is_attached_every_request_gets_503(path):
    answer = await call(FrontDoor(control_here=True, allow_engine_admin=False), path)

    assert answer.status == 503
    assert json.loads(answer.body)["error"]["message"] == "the router is starting"
    assert answer.headers["retry-after"] == "1"


async def test_websockets_are_closed_with_a_reason():
    sent = []

    async def send(message):
        sent.append(message)

    await door()({"type": "websocket", "path": "/v1/realtime"}, None, send)

    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "websockets are not relayed"}]


async def test_without_a_lifespan_of_its_own_it_follows_the_servers():
    assert await Lifespan(door()).run() == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_its_own_lifespan_is_run():
    async def refuse(receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    assert await Lifespan(door(lifespan=refuse)).run() == ["lifespan.startup.failed"]


async def test_the_admin_door_marks_requests_and_keeps_the_servers_state():
    seen = {}

    async def control(scope, receive, send):
        seen.update(scope["state"])
        await named("control")(scope, receive, send)

    with_state = await call(admin_door(control), "/metrics", state={"kept": 1})
    without = await call(admin_door(control), "/metrics")

    assert seen == {"kept": 1, ADMIN_LISTENER: True}
    assert (with_state.status, without.status) == (200, 200)
