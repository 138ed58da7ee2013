"""`/v1/responses` of the simulated server: shapes, events, what is kept."""

import asyncio
import json

import pytest

from tests.simserver.kit import eventually


@pytest.fixture
async def client(launch, connect):
    return await connect(await launch(answer_tokens=(3, 3)))


def body(text="hello", **fields):
    return {"model": "sim/llama-8b", "input": text, **fields}


async def create(client, *arguments, **fields):
    return (await client.post("/v1/responses", json=body(*arguments, **fields))).json()


async def has_status(client, response_id, status):
    """Ask until a response has a status."""
    async with asyncio.timeout(5):
        while True:
            answer = await client.get(f"/v1/responses/{response_id}")
            if answer.json()["status"] == status:
                return True


def named_events(text):
    """(name, payload) of each event."""
    blocks = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


async def test_a_response_has_its_text_and_usage_and_its_id_first(client):
    answer = await client.post("/v1/responses", json=body())
    response = answer.json()

    assert answer.text.startswith('{"id":"resp_')
    assert (response["object"], response["status"], response["incomplete_details"]) == (
        "response",
        "completed",
        None,
    )
    [item] = response["output"]
    assert (item["type"], item["role"]) == ("message", "assistant")
    assert len(item["content"][0]["text"].split()) == 3
    assert response["usage"]["output_tokens"] == 3
    assert response["usage"]["total_tokens"] == response["usage"]["input_tokens"] + 3


async def test_a_response_that_runs_into_its_limit_is_incomplete(client):
    response = await create(client, max_output_tokens=2)

    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_the_events_of_a_stream_come_in_vllms_order_and_are_numbered(client):
    answer = await client.post("/v1/responses", json=body(stream=True))
    found = named_events(answer.text)

    assert answer.text.startswith('event: response.created\ndata: {"response":{"id":"resp_')
    assert [name for name, _ in found] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [data["sequence_number"] for _, data in found] == list(range(11))
    assert all(data["type"] == name for name, data in found)
    deltas = "".join(data["delta"] for name, data in found if name == "response.output_text.delta")
    assert deltas == found[-1][1]["response"]["output"][0]["content"][0]["text"]
    assert found[-1][1]["response"]["usage"]["output_tokens"] == 3
    assert found[0][1]["response"]["status"] == "in_progress"


async def test_a_stream_that_runs_into_its_limit_ends_incomplete(client):
    answer = await client.post("/v1/responses", json=body(stream=True, max_output_tokens=1))

    assert named_events(answer.text)[-1][0] == "response.incomplete"


async def test_a_response_can_be_asked_for_again(client):
    made = await create(client)
    streamed = named_events((await client.post("/v1/responses", json=body(stream=True))).text)[-1][1][
        "response"
    ]

    assert (await client.get(f"/v1/responses/{made['id']}")).json() == made
    assert (await client.get(f"/v1/responses/{streamed['id']}")).json() == streamed


async def test_what_is_not_to_be_stored_is_not(client):
    made = await create(client, store=False)
    answer = await client.get(f"/v1/responses/{made['id']}")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"Response with id '{made['id']}' not found."


async def test_a_continued_response_has_the_whole_conversation_as_its_prompt(client):
    first = await create(client, "one", instructions="Be brief.")
    second = await create(client, "two", previous_response_id=first["id"])
    spelled_out = await create(
        client,
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": first["output"][0]["content"][0]["text"]},
            {"role": "user", "content": "two"},
        ],
    )

    assert second["previous_response_id"] == first["id"]
    assert second["usage"]["input_tokens"] == spelled_out["usage"]["input_tokens"]


async def test_continuing_what_is_unknown_is_not_found(client):
    answer = await client.post("/v1/responses", json=body(previous_response_id="resp_9"))
    assert answer.status_code == 404


async def test_items_of_other_kinds_are_part_of_the_prompt(client):
    call = {"type": "function_call_output", "call_id": "c1", "output": "sunny " * 50}
    plain = await create(client, [{"role": "user", "content": "hi"}])
    more = await create(client, [{"role": "user", "content": "hi"}, call])

    assert more["usage"]["input_tokens"] > plain["usage"]["input_tokens"]


async def test_work_in_the_background_is_asked_for_until_it_is_complete(client):
    begun = await create(client, background=True)
    assert (begun["status"], begun["background"], begun["output"]) == ("queued", True, [])

    assert await has_status(client, begun["id"], "completed")


async def test_work_in_the_background_can_be_cancelled_and_frees_the_engine(launch, connect):
    server = await launch(time_scale=1.0)
    client = await connect(server)
    begun = await create(client, background=True, max_output_tokens=4000, ignore_eos=True)
    await eventually(lambda: server.core.engine.live_requests == 1)

    answer = await client.post(f"/v1/responses/{begun['id']}/cancel")

    assert answer.json()["status"] == "cancelled"
    await eventually(lambda: server.core.engine.live_requests == 0)
    assert (await client.post(f"/v1/responses/{begun['id']}/cancel")).status_code == 400


async def test_only_work_in_the_background_can_be_cancelled(client):
    made = await create(client)
    answer = await client.post(f"/v1/responses/{made['id']}/cancel")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "Cannot cancel a synchronous response."


async def test_work_in_the_background_ends_with_the_server_and_fails_with_the_engine(launch, connect):
    server = await launch(time_scale=1.0)
    client = await connect(server)
    long = {"background": True, "max_output_tokens": 4000, "ignore_eos": True}
    failing = await create(client, **long)
    await eventually(lambda: server.core.engine.live_requests == 1)
    server.fail_engine()

    assert await has_status(client, failing["id"], "failed")

    server.core.refusal = None
    await create(client, **long)
    await eventually(lambda: server.core.engine.live_requests == 1)
    await server.stop()
    assert server.core.engine.live_requests == 0


async def test_an_engine_that_dies_ends_a_stream_with_an_error_event(launch, connect):
    server = await launch(time_scale=1.0)
    client = await connect(server)
    streaming = asyncio.create_task(
        client.post("/v1/responses", json=body(stream=True, max_output_tokens=4000, ignore_eos=True))
    )
    await eventually(lambda: server.core.engine.live_requests == 1)
    server.fail_engine()
    name, data = named_events((await streaming).text)[-1]

    assert name == "error"
    assert "EngineCore encountered an issue" in data["error"]["message"]
