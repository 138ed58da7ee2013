"""A proxy dropped all query parameters but its own."""

import pytest


@pytest.mark.parametrize("named", [True, False])
async def test_every_query_parameter_of_an_administrative_request_is_forwarded(stage, named):
    endpoint, router = stage
    headers = {"x-epp-target": endpoint.address} if named else {}
    answer = await router.client.post("/sleep?level=2&mode=wait", headers=headers)
    [asked] = endpoint.relayed()

    assert answer.status_code == 200
    assert asked.target == "/sleep?level=2&mode=wait"
    assert "x-epp-target" not in asked.headers
