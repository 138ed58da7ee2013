"""The same requests through every mode in which Envoy can show them and route them."""

import asyncio
import gzip
import json

import pytest

from epp.config.model_rewrites import ModelRewrite
from tests.e2e.kit import eventually

BODIES = ["BUFFERED", "FULL_DUPLEX_STREAMED"]
DESTINATION = "x-gateway-destination-endpoint"
RULE = {"model_rewrite": (ModelRewrite("an-old-name-that-is-longer", (("m", 1),)),)}


@pytest.mark.parametrize(
    ("body", "routing"),
    [("BUFFERED", "header"), ("FULL_DUPLEX_STREAMED", "metadata"), ("FULL_DUPLEX_STREAMED", "override")],
)
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
    assert sent_to.asked[0].headers["x-request-id"] == answers[0].headers["x-request-id"]


@pytest.mark.parametrize("body", BODIES)
async def test_bodies_of_five_megabytes_and_requests_without_one_arrive_whole(gateway, body):
    gate = await gateway(1, request_body=body)
    long = {"model": "m", "prompt": "x" * 5_000_000}

    posted = await gate.envoy.client.post("/v1/completions", json=long)
    got = await gate.envoy.client.get("/v1/models", headers={"x-request-id": "mine"})
    uploaded = await gate.envoy.client.post("/v1/files", content=b"\x00" * 200_000)

    assert [a.status_code for a in (posted, got, uploaded)] == [200] * 3
    [server] = gate.servers
    assert [len(asked.body) for asked in server.asked] == [5_000_025, 0, 200_000]
    assert server.asked[1].headers["x-request-id"] == "mine"


@pytest.mark.parametrize("depth", ["none", "headers", "full"])
@pytest.mark.parametrize("shown", ["NONE", "STREAMED", "FULL_DUPLEX_STREAMED"])
async def test_streams_of_tokens_reach_the_client_at_every_depth(gateway, depth, shown):
    gate = await gateway(1, grpc={"response": depth}, response_body=shown)
    [server] = gate.servers
    body = {"model": "m", "prompt": "Hello", "stream": True}

    async with gate.envoy.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.aiter_lines()
        first = await anext(lines)  # before the server goes on
        server.go.set()
        rest = [line async for line in lines if line]

    assert json.loads(first.removeprefix("data: "))["n"] == 0
    assert rest[-1] == "data: [DONE]"
    assert len(rest) == 4
    if shown == "FULL_DUPLEX_STREAMED" or (depth == "full" and shown == "STREAMED"):
        [decision] = await gate.router.decisions(1)
        assert decision["reason"] == "complete"
        assert decision["completion_tokens"] == 3


async def test_a_gateway_that_shows_no_answers_is_served_too(gateway):
    gate = await gateway(1, response_headers="SKIP")

    assert (await gate.chat()).status_code == 200


async def test_tls_is_spoken_with_a_certificate_made_at_the_start(gateway):
    gate = await gateway(1, tls=True)

    assert (await gate.chat()).status_code == 200


async def test_errors_of_the_picker_reach_the_client_as_they_are(gateway):
    gate = await gateway(1, settings={"max_inflight_per_endpoint": 1})
    [server] = gate.servers
    body = {"model": "m", "prompt": "Hello", "stream": True}

    async with gate.envoy.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.aiter_lines()  # one that nobody holds would be collected, and close the answer
        await anext(lines)
        full = await gate.chat()
        bad = await gate.envoy.client.post("/v1/completions", content=b"{")
        unknown = await gate.chat(model="nobody")
        admin = await gate.envoy.client.post("/sleep")
        server.go.set()

    assert (full.status_code, full.headers["x-llm-d-request-dropped-reason"]) == (429, "rejected-saturated")
    assert (full.headers["retry-after"], full.headers["content-type"]) == ("1", "application/json")
    assert full.json()["error"]["code"] == "saturated"
    assert bad.status_code == 400
    assert bad.json()["error"]["type"] == "invalid_request_error"
    assert unknown.status_code == 404
    assert admin.status_code == 403
    assert len(server.asked) == 1


@pytest.mark.parametrize("routing", ["header", "override"])
async def test_a_subset_hint_of_the_gateway_is_kept_to(gateway, servers, routing):
    backends = await servers(3)
    allowed = backends[1].address
    gate = await gateway(backends=backends, routing=routing, subset=(allowed,))

    answers = [await gate.chat(f"{n}") for n in range(5)]

    assert {a.json()["server"] for a in answers} == {allowed}


async def test_an_empty_subset_is_503(gateway):
    gate = await gateway(2, subset=())

    answer = await gate.chat()

    assert answer.status_code == 503
    assert answer.headers["x-llm-d-request-dropped-reason"] == "rejected-no-endpoints"


async def test_ipv6_endpoints_are_reached(gateway, servers):
    gate = await gateway(backends=await servers(1, host="::1"))

    answer = await gate.chat()

    assert answer.json()["server"].startswith("[::1]:")


async def test_routing_headers_of_clients_have_no_effect_and_do_not_travel(gateway, servers):
    gate = await gateway(2)
    outside = (await servers(1))[0]
    forged = {
        DESTINATION: outside.address,
        "x-gateway-destination-endpoint-served": outside.address,
        "x-prefiller-host-port": outside.address,
    }

    answer = await gate.chat(headers=forged)

    assert answer.json()["server"] in {server.address for server in gate.servers}
    assert outside.asked == []
    [asked] = [asked for server in gate.servers for asked in server.asked]
    assert asked.headers[DESTINATION] == answer.json()["server"]
    assert not {"x-gateway-destination-endpoint-served", "x-prefiller-host-port"} & set(asked.headers)


async def test_more_than_1024_streams_may_be_open(gateway):
    gate = await gateway(2, grpc={"response": "full"}, response_body="STREAMED")
    host, _, port = gate.envoy.url.removeprefix("http://").rpartition(":")
    body = b'{"model": "m", "prompt": "Hello", "stream": true}'
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"

    async def ask():
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head % len(body) + body)
        try:
            return await reader.read()
        finally:
            writer.close()

    asking = [asyncio.create_task(ask()) for _ in range(1100)]
    await eventually(lambda: sum(server.live for server in gate.servers) == 1100)
    for server in gate.servers:
        server.go.set()
    answers = await asyncio.gather(*asking)

    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200"}
    assert all(b"data: [DONE]" in answer for answer in answers)


@pytest.mark.parametrize("request_body", BODIES)
@pytest.mark.parametrize("response_body", ["STREAMED", "BUFFERED", "FULL_DUPLEX_STREAMED"])
async def test_a_model_is_rewritten_on_the_way_and_renamed_in_the_answer(
    gateway, request_body, response_body
):
    gate = await gateway(1, settings=RULE, request_body=request_body, response_body=response_body)
    [server] = gate.servers
    server.go.set()

    document = await gate.chat(model="an-old-name-that-is-longer")
    stream = await gate.chat(model="an-old-name-that-is-longer", stream=True)
    plain = await gate.chat()

    assert [json.loads(asked.body)["model"] for asked in server.asked] == ["m", "m", "m"]
    assert document.json()["model"] == "an-old-name-that-is-longer"
    if "content-length" in document.headers:
        assert int(document.headers["content-length"]) == len(document.content)
    assert stream.text.count('"model": "an-old-name-that-is-longer"') == 3
    assert stream.text.endswith("data: [DONE]\n\n")
    assert plain.json()["model"] == "m"
    decisions = await gate.router.decisions(3)
    assert [d.get("completion_tokens") for d in decisions[:2]] == [2, 3]


@pytest.mark.parametrize("depth", ["none", "headers"])
async def test_a_model_is_renamed_at_every_depth_and_errors_pass(gateway, depth):
    gate = await gateway(1, settings=RULE, grpc={"response": depth}, response_body="STREAMED")
    [server] = gate.servers

    renamed = await gate.chat(model="an-old-name-that-is-longer")
    server.status = 404
    error = await gate.chat(model="an-old-name-that-is-longer")

    assert renamed.json()["model"] == "an-old-name-that-is-longer"
    assert error.json()["model"] == "m"


async def test_a_gateway_that_shows_no_answers_bodies_sends_to_the_target_all_the_same(gateway):
    gate = await gateway(1, settings=RULE, request_body="BUFFERED")

    answer = await gate.chat(model="an-old-name-that-is-longer")

    assert answer.json()["model"] == "m"


@pytest.mark.parametrize("request_body", BODIES)
async def test_a_compressed_body_with_another_model_arrives_as_it_was_before(gateway, request_body):
    gate = await gateway(1, settings=RULE, request_body=request_body)
    body = {"model": "an-old-name-that-is-longer", "messages": [{"role": "user", "content": "x" * 200_000}]}
    headers = {"content-encoding": "gzip", "content-type": "application/json"}

    answer = await gate.envoy.client.post(
        "/v1/chat/completions", content=gzip.compress(json.dumps(body).encode()), headers=headers
    )

    [server] = gate.servers
    assert answer.status_code == 200
    assert json.loads(server.asked[0].body) == {**body, "model": "m"}
    assert "content-encoding" not in server.asked[0].headers
