"""Faults on request, by header and by the administration route."""

import asyncio

import httpx
import pytest

from epp.simserver.faults import FaultPlan, Faults, parse_faults
from tests.simserver.kit import events, raw_exchange, raw_post


def body(stream):
    return {"prompt": "a", "max_tokens": 4, "stream": stream}


async def post(client, fault, stream=False, path="/v1/completions"):
    return await client.post(path, json=body(stream), headers={"x-sim-fault": fault})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "status", "error_type"),
    [
        ("status=503", 503, "Service Unavailable"),
        ("status=429", 429, "Too Many Requests"),
        ("draining", 500, "InternalServerError"),
        ("engine-dead", 500, "InternalServerError"),
    ],
)
async def test_a_status_is_answered_with_an_error_body(launch, connect, fault, status, error_type, stream):
    client = await connect(await launch())
    response = await post(client, fault, stream)

    assert response.status_code == status
    assert response.json()["error"]["type"] == error_type


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("reset-before-head", httpx.ReadError),
        ("reset-in-head", httpx.ReadError),
        ("close-before-head", httpx.RemoteProtocolError),
        ("garbage-head", httpx.RemoteProtocolError),
    ],
)
async def test_a_head_may_never_come(launch, connect, fault, error):
    client = await connect(await launch())

    with pytest.raises(error):
        await post(client, fault)


async def test_a_server_may_hang_until_the_client_leaves(launch, connect):
    server = await launch()
    client = await connect(server)

    with pytest.raises(httpx.ReadTimeout):
        await client.post("/v1/completions", json=body(False), headers={"x-sim-fault": "hang"}, timeout=0.05)
    assert server.core.engine.counters.prompt == 0


async def test_a_head_may_be_slow(launch, connect):
    client = await connect(await launch())
    loop = asyncio.get_running_loop()
    started = loop.time()
    response = await post(client, "slow-head=0.05")

    assert response.status_code == 200
    assert loop.time() - started >= 0.05


@pytest.mark.parametrize(("fault", "whole_events"), [("truncate", 1), ("truncate=0", 0), ("truncate=3", 3)])
async def test_a_stream_may_be_truncated(launch, fault, whole_events):
    server = await launch()
    data = await raw_exchange(server, raw_post("/v1/completions", body(True), f"x-sim-fault: {fault}"))

    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.count(b"data: {") == whole_events
    assert not data.endswith(b"0\r\n\r\n")


async def test_a_reply_may_be_truncated(launch):
    server = await launch()
    data = await raw_exchange(server, raw_post("/v1/completions", body(False), "x-sim-fault: truncate"))
    head, _, rest = data.partition(b"\r\n\r\n")

    assert b"content-length: 6" in head
    assert 250 < len(rest) < 350


@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_may_end_in_a_reset(launch, connect, stream):
    client = await connect(await launch())

    with pytest.raises(httpx.ReadError):
        await post(client, "reset-after=2", stream)


async def test_a_stream_may_go_silent(launch):
    server = await launch()
    reader, writer = await asyncio.open_connection(server.settings.host, server.port)
    writer.write(raw_post("/v1/completions", body(True), "x-sim-fault: hang-after=2"))
    await reader.readuntil(b"data: ")
    await reader.readuntil(b"data: ")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readuntil(b"data: "), 0.05)
    writer.close()
    await writer.wait_closed()


async def test_a_stream_may_end_in_an_error_event(launch, connect):
    client = await connect(await launch())
    response = await post(client, "error-event=2", stream=True)
    *chunks, error, done = events(response.text)

    assert len(chunks) == 2
    assert error["error"]["code"] == 500
    assert done == "[DONE]"


async def test_an_error_event_in_a_reply_is_a_500(launch, connect):
    client = await connect(await launch())

    assert (await post(client, "error-event")).status_code == 500


async def test_an_unknown_fault_is_a_bad_request(launch, connect):
    client = await connect(await launch())
    response = await post(client, "explode")

    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(
        "fault 'explode': unknown; known are status, slow-head,"
    )


async def test_the_header_works_on_every_route(launch, connect):
    client = await connect(await launch())

    assert (await client.get("/metrics", headers={"x-sim-fault": "status=500"})).status_code == 500
    with pytest.raises(httpx.RemoteProtocolError):
        await client.get("/metrics", headers={"x-sim-fault": "truncate"})


async def test_the_administration_route_lets_the_next_requests_fail(launch, connect):
    client = await connect(await launch())
    added = await client.post("/sim/faults", json={"fault": "status=503", "times": 2})
    statuses = [(await client.post("/v1/completions", json=body(False))).status_code for _ in range(3)]

    assert added.json() == {"waiting": 1}
    assert statuses == [503, 503, 200]
    assert (await client.get("/sim/faults")).json() == {"waiting": 0}


async def test_a_fault_with_a_path_waits_for_that_path(launch, connect):
    client = await connect(await launch())
    await client.post("/sim/faults", json={"fault": "status=500", "times": None, "path": "/metrics"})

    assert (await client.post("/v1/completions", json=body(False))).status_code == 200
    assert [(await client.get("/metrics")).status_code for _ in range(2)] == [500, 500]


async def test_faults_can_be_cleared(launch, connect):
    client = await connect(await launch())
    await client.post("/sim/faults", json={"fault": "status=503"})
    await client.delete("/sim/faults")

    assert (await client.post("/v1/completions", json=body(False))).status_code == 200


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"fault": "status=99"}, "fault 'status=99': must lie between 200 and 599"),
        ({"fault": "status=503", "times": 0}, "times must be at least 1, got 0"),
        (
            {"fault": "status=503", "times": "many"},
            "1 validation error:\n  {'type': 'int_type', 'loc': 'body.times'",
        ),
        (
            {"fault": "status=503", "path": 7},
            "1 validation error:\n  {'type': 'string_type', 'loc': 'body.path'",
        ),
        ({}, "fault '': unknown"),
    ],
)
async def test_a_fault_that_cannot_be_read_is_refused(launch, connect, fault, message):
    client = await connect(await launch())
    response = await client.post("/sim/faults", json=fault)

    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)


# -------------------------------------------------------------------- language


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("status=404", FaultPlan(status=404)),
        ("slow-head=1.5, reset-after=3", FaultPlan(slow_head_s=1.5, body="reset-after", body_chunks=3)),
        ("hang", FaultPlan(head="hang")),
        ("truncate", FaultPlan(body="truncate", body_chunks=1)),
    ],
)
def test_faults_are_read(text, plan):
    assert parse_faults(text) == plan


@pytest.mark.parametrize(
    "text",
    ["", "hang=1", "status=", "status=abc", "slow-head=-1", "slow-head=nan", "slow-head=", "truncate=-1"],
)
def test_faults_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="fault "):
        parse_faults(text)


def test_the_first_waiting_fault_of_a_path_is_taken():
    faults = Faults()
    faults.add("status=500", path="/metrics")
    faults.add("status=501")
    faults.add("status=502")

    assert faults.take("/v1/completions", None, inference=True).status == 501
    assert faults.take("/v1/completions", None, inference=True).status == 502
    assert faults.take("/v1/completions", None, inference=True).status is None
    assert faults.take("/health", None, inference=False).status is None
    assert faults.take("/metrics", None, inference=False).status == 500
    assert len(faults) == 0
