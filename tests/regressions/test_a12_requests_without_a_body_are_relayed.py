"""Requests without a body crashed the picker, or hung."""

import pytest


@pytest.mark.parametrize(
    "method, path", [("HEAD", "/"), ("DELETE", "/v1/x"), ("GET", "/v1/files"), ("POST", "/v1/x")]
)
async def test_requests_without_a_body_are_relayed_and_nothing_is_parsed(stage, method, path):
    endpoint, router = stage
    answer = await router.client.request(method, path)
    [asked] = endpoint.relayed()

    assert answer.status_code == 200
    assert (asked.method, asked.target, asked.body) == (method, path, b"")


async def test_the_models_are_asked_for_without_a_body(stage):
    _, router = stage
    assert [model["id"] for model in (await router.client.get("/v1/models")).json()["data"]] == ["m"]
