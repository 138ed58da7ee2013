"""OpenAI's library beyond chat: stored responses, embeddings, recordings."""

import openai
import pytest

from tests.e2e.kit import LONG_TEXT, eventually

MODEL = "sim/llama-8b"


@pytest.fixture
async def stage(fleet, route, sdk):
    """Three servers, a router that knows their model, and a client."""
    servers = await fleet(3, answer_tokens=(6, 6))
    router = await route(*servers)
    await router.know(MODEL)
    return {server.address: server for server in servers}, router, await sdk(router)


async def respond(client, text, **fields):
    """A response and the address of the endpoint that made it."""
    raw = await client.responses.with_raw_response.create(model=MODEL, input=text, **fields)
    return raw.parse(), raw.headers["x-epp-endpoint"]


async def test_a_response_is_retrieved_from_the_endpoint_that_made_it(stage):
    _, _, client = stage
    made = [await respond(client, f"Question {n}") for n in range(6)]

    for response, address in made:
        raw = await client.responses.with_raw_response.retrieve(response.id)
        assert raw.headers["x-epp-endpoint"] == address
        assert raw.parse().output_text == response.output_text
    assert len({address for _, address in made}) == 3


async def test_a_conversation_goes_on_where_it_began(stage):
    _, _, client = stage
    first, address = await respond(client, "My name is An.", instructions="Be brief.")
    others = [await respond(client, f"Another question {n}") for n in range(4)]
    second, again = await respond(client, "What is my name?", previous_response_id=first.id)
    third, once_more = await respond(client, "And yours?", previous_response_id=second.id)

    assert (again, once_more) == (address, address)
    assert {elsewhere for _, elsewhere in others} != {address}
    assert first.usage.input_tokens < second.usage.input_tokens < third.usage.input_tokens


async def test_a_streamed_response_is_known_by_its_first_event(stage):
    servers, _, client = stage
    async with client.responses.stream(model=MODEL, input="Tell me a story") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    raw = await client.responses.with_raw_response.retrieve(final.id)

    assert events[0].type == "response.created"
    assert [event.type for event in events].count("response.output_text.delta") == 6
    assert final.output_text == raw.parse().output_text
    assert raw.headers["x-epp-endpoint"] in servers


async def test_a_response_in_the_background_is_cancelled_where_it_runs(fleet, route, sdk):
    servers = await fleet(3, time_scale=1.0)
    router = await route(*servers)
    await router.know(MODEL)
    client = await sdk(router)
    long = {"background": True, "max_output_tokens": 4000, "extra_body": {"ignore_eos": True}}
    begun, address = await respond(client, "Count to a million", **long)
    [server] = [server for server in servers if server.address == address]
    await eventually(lambda: server.core.engine.live_requests == 1)

    cancelled = await client.responses.cancel(begun.id)

    assert (begun.status, cancelled.status) == ("queued", "cancelled")
    await eventually(lambda: server.core.engine.live_requests == 0)


async def test_a_response_whose_endpoint_has_restarted_is_lost_and_it_is_said_so(stage):
    servers, router, client = stage
    made, address = await respond(client, "Remember this")

    async def started():
        state = (await router.client.get("/debug/state?index=false")).json()["endpoints"]
        [endpoint] = [e for e in state if e["url"].endswith(address)]
        return endpoint["metrics"]["process_start"]

    first = await started()
    await servers[address].kill()
    await servers[address].start()

    async def restarted():
        return await started() != first

    await eventually(restarted)
    with pytest.raises(openai.NotFoundError) as raised:
        await client.responses.retrieve(made.id)

    assert raised.value.code == "response_not_found"
    assert (
        raised.value.body["message"]
        == f"response '{made.id}' is lost: {address}, which held it, has restarted"
    )


async def test_an_unknown_response_gets_the_endpoints_own_404(stage):
    _, _, client = stage

    with pytest.raises(openai.NotFoundError) as raised:
        await client.responses.retrieve("resp_unknown")

    assert raised.value.body["message"] == "Response with id 'resp_unknown' not found."
    assert raised.value.response.headers["x-epp-endpoint"]


async def test_usage_of_a_response_is_read_by_the_router_streamed_or_not(stage):
    _, router, client = stage
    await respond(client, LONG_TEXT)
    repeat, _ = await respond(client, LONG_TEXT)
    async with client.responses.stream(model=MODEL, input=LONG_TEXT) as stream:
        await stream.until_done()
    decisions = await router.decisions(3)

    assert [d["completion_tokens"] for d in decisions] == [6, 6, 6]
    assert repeat.usage.input_tokens_details.cached_tokens > 1000
    assert [d["predicted_gpu"] > 1000 for d in decisions] == [False, True, True]


async def test_embeddings_come_in_the_coding_that_the_library_asks_for(stage):
    _, _, client = stage
    several = await client.embeddings.create(model=MODEL, input=["a", "b"])
    plain = await client.embeddings.create(model=MODEL, input="a", encoding_format="float", dimensions=64)

    assert [len(row.embedding) for row in several.data] == [64, 64]
    assert several.data[0].embedding == pytest.approx(plain.data[0].embedding)
    assert several.usage.prompt_tokens == 2


async def test_a_text_that_is_embedded_again_goes_where_it_is_held(stage):
    _, router, client = stage
    for _ in range(3):
        await client.embeddings.create(model=MODEL, input=LONG_TEXT)
    first, second, third = await router.decisions(3)

    assert first["endpoint"] == second["endpoint"] == third["endpoint"]
    assert first["predicted_gpu"] == 0
    assert second["predicted_gpu"] > 1000


async def test_a_recording_is_transcribed_whole_and_as_a_stream(stage):
    servers, _, client = stage
    recording = ("speech.wav", b"RIFF" + bytes(range(256)) * 2000, "audio/wav")
    raw = await client.audio.transcriptions.with_raw_response.create(model=MODEL, file=recording)
    stream = await client.audio.transcriptions.create(model=MODEL, file=recording, stream=True)
    pieces = [chunk.model_extra["choices"][0]["delta"].get("content", "") async for chunk in stream]
    [seen] = servers[raw.headers["x-epp-endpoint"]].core.seen

    assert len(raw.parse().text.split()) == 6
    assert "".join(pieces) == raw.parse().text
    assert recording[1] in seen.body


async def test_a_recording_for_an_unknown_model_gets_the_endpoints_own_404(stage):
    _, _, client = stage

    with pytest.raises(openai.NotFoundError, match="The model `nope` does not exist"):
        await client.audio.transcriptions.create(model="nope", file=("a.wav", b"a", "audio/wav"))
