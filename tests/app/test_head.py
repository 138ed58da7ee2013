"""HEAD on what this router answers itself, over a real socket."""

import pytest


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/health", "/ping", "/version", "/v1/models", "/metrics"]
)
async def test_head_is_answered_as_get_without_the_body(serve, route, connect, path):
    endpoint = await serve()
    client = await connect((await route(endpoint)).url)

    head = await client.head(path)
    asked = await client.get(path)  # on the same connection: a body after the head would be in its way

    assert (head.status_code, head.content) == (asked.status_code, b"") == (200, b"")
    assert head.headers.get("content-type") == asked.headers.get("content-type")


async def test_head_of_a_route_for_another_method_is_405(serve, route, connect):
    client = await connect((await route(await serve())).url)

    answer = await client.head("/pick")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
