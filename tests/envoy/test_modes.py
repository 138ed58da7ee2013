"""The same requests through every mode in which Envoy can show them and route them."""

import json

import pytest

BODIES = ["BUFFERED", "FULL_DUPLEX_STREAMED"]
DESTINATION = "x-gateway-destination-endpoint"


@pytest.mark.parametrize("routing", ["header", "metadata", "override"])
@pytest.mark.parametrize("body", BODIES)
async def test_the_pick_decides_where_a_request_goes(gateway, body, routing):
    gate = await gateway(request_body=body, routing=routing)
    text = "The same beginning. " * 200

    answers = [await gate.chat(f"{text} {n}") for n in range(6)]

    assert [a.status_code for a in answers] == [200] * 6
    # They share a prefix, so they share a server, which is what the header names.
    assert len({a.json()["server"] for a in answers}) == 1
    assert all(a.headers["x-epp-endpoint"] == a.json()["server"] for a in answers)
    [sent_to] = [server for server in gate.servers if server.asked]
    assert {asked.headers[DESTINATION] for asked in sent_to.asked} == {sent_to.address}
    assert json.loads(sent_to.asked[0].body)["messages"][0]["content"] == f"{text} 0"
