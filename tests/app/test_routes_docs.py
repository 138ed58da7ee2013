"""docs/routes.md says of every route what the code does with it."""

import re
from pathlib import Path

import pytest

from epp.app.lanes import CONTROL_PATHS, ENGINE_ADMIN_PATHS, ENGINE_ADMIN_PREFIX, POOL_PATHS, Lane, lane_of
from epp.app.routes import RELAYED_ROUTES
from epp.director.administration import TARGET_HEADER, is_broadcast
from epp.request import Api, api_of, stored_response_of

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \|", PAGE, re.MULTILINE)


def how(method, path):
    """The word of the table, as the code would have it."""
    lane = lane_of(path)
    if lane is Lane.POOL:
        return "pool"
    if lane is Lane.CONTROL:
        return "epp"
    if lane is Lane.ENGINE_ADMIN:
        return "all" if is_broadcast(path, {TARGET_HEADER: "10.0.0.1:8000"}) else "one"
    if path == "/v1/realtime":
        return "websocket"
    if stored_response_of(path):
        return "holder"
    return "prefix" if method == "POST" and api_of(path) is not Api.OTHER else "load"


@pytest.mark.parametrize("method, path, said", ROWS)
def test_the_page_says_what_the_code_does(method, path, said):
    assert said == how(method, path)


def test_no_route_stands_twice():
    routes = [(method, path) for method, path, _ in ROWS]
    assert len(routes) == len(set(routes)) > 80


def test_every_relayed_route_is_on_the_page_and_on_the_openapi_page():
    relayed = {(m, p) for m, p, said in ROWS if said in {"prefix", "load", "holder", "websocket"}}
    assert relayed == {(route.method, route.path) for route in RELAYED_ROUTES}


def test_every_route_of_the_pool_of_epp_and_of_engines_is_on_the_page():
    paths = {path for _, path, _ in ROWS}
    assert paths >= POOL_PATHS | CONTROL_PATHS | ENGINE_ADMIN_PATHS
    assert any(path.startswith(ENGINE_ADMIN_PREFIX) for path in paths)


def test_every_word_of_the_tables_is_explained():
    [legend] = re.findall(r"^\| how \| what it means \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert {said for _, _, said in ROWS} == set(re.findall(r"^\| (\w+) \|", legend, re.MULTILINE))
