"""Who serves, and who is refused."""

import json

import pytest

from epp.app.front_door import FrontDoor
from epp.config.path_rules import parse_path_rules


async def ask(door, path):
    """Status and code of the answer of the front door, else who was to serve."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        raise AssertionError

    await door({"type": "http", "path": path, "headers": []}, receive, send)
    if isinstance(sent[0], str):
        return sent[0]
    return sent[0]["status"], json.loads(sent[1]["body"])["error"]["code"]


def app(name):
    async def serve(scope, receive, send):
        await send(name)

    return serve


def door(*, control_here=True, allow_engine_admin=False, rules=""):
    made = FrontDoor(
        control_here=control_here,
        allow_engine_admin=allow_engine_admin,
        path_rules=parse_path_rules(rules) if rules else (),
    )
    made.attach(app("relay"), app("control"), app("engines"))
    return made


@pytest.mark.parametrize(
    "path, served_by",
    [
        ("/v1/chat/completions", "relay"),
        ("/anything", "relay"),
        ("/health", "control"),
        ("/metrics", "control"),
    ],
)
async def test_each_path_has_its_application(path, served_by):
    assert await ask(door(), path) == served_by


async def test_the_control_surface_is_refused_where_it_has_a_listener_of_its_own_and_the_pools_answers_stay():
    made = door(control_here=False)
    assert await ask(made, "/metrics") == (403, "route_closed")
    assert await ask(made, "/v1/models") == "control"


async def test_engine_administration_is_closed_unless_it_is_opened():
    assert await ask(door(), "/sleep") == (403, "route_closed")
    assert await ask(door(), "/sleep/") == (403, "route_closed")
    assert await ask(door(allow_engine_admin=True), "/sleep") == "engines"


async def test_path_rules_close_relayed_routes_and_administration_and_nothing_of_our_own():
    made = door(allow_engine_admin=True, rules="allow /v1/chat/*, deny *")
    assert await ask(made, "/v1/chat/completions") == "relay"
    assert await ask(made, "/v1/audio/transcriptions") == (403, "route_closed")
    assert await ask(made, "/sleep") == (403, "route_closed")
    assert await ask(made, "/v1/models") == "control"
    assert await ask(made, "/metrics") == "control"


async def test_before_the_start_everybody_gets_503():
    made = FrontDoor(control_here=True, allow_engine_admin=True)
    for path in ("/v1/chat/completions", "/health", "/sleep"):
        assert await ask(made, path) == (503, "no_endpoints")
