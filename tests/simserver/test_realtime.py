"""`/v1/realtime` of the simulated server, asked by the real `websockets` client."""

import asyncio
import base64
import json

import pytest
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.simserver.kit import eventually, raw_exchange

MODEL = {"type": "session.update", "model": "sim/llama-8b"}


def append(data):
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()}


COMMIT = {"type": "input_audio_buffer.commit", "final": True}


@pytest.fixture
async def server(launch):
    return await launch(answer_tokens=(3, 3))


@pytest.fixture
def session(server):
    return open_websocket(f"ws://{server.address}/v1/realtime", proxy=None)


async def say(websocket, *events):
    for event in events:
        await websocket.send(json.dumps(event))


async def hear(websocket, last="transcription.done"):
    """Events up to one of type `last`."""
    events = []
    async with asyncio.timeout(10):
        while not events or events[-1]["type"] != last:
            events.append(json.loads(await websocket.recv()))
    return events


async def test_an_utterance_becomes_text_piece_by_piece(session):
    async with session as websocket:
        [created] = await hear(websocket, "session.created")
        await say(
            websocket, MODEL, {"type": "input_audio_buffer.commit"}, append(b"abc"), append(b"def"), COMMIT
        )
        *deltas, done = await hear(websocket)

    assert created["id"].startswith("sess-")
    assert [event["type"] for event in deltas] == ["transcription.delta"] * 3
    assert "".join(event["delta"] for event in deltas) == done["text"]
    assert done["usage"]["completion_tokens"] == 3


async def test_the_text_depends_on_the_recording_and_each_utterance_is_its_own(session):
    async def text(websocket, data):
        await say(websocket, append(data), COMMIT)
        return (await hear(websocket))[-1]["text"]

    async with session as websocket:
        await say(websocket, MODEL)
        one, again, other = [await text(websocket, data) for data in (b"a", b"a", b"b")]

    assert one == again != other


@pytest.mark.parametrize("size", [10, 1000, 100_000])
async def test_messages_of_every_length_and_in_fragments_are_read(session, size):
    async with session as websocket:
        await websocket.send(json.dumps(MODEL))
        whole = json.dumps(append(b"x" * size))
        await websocket.send([whole[: len(whole) // 2], whole[len(whole) // 2 :]])
        await say(websocket, COMMIT)

        assert (await hear(websocket))[-1]["text"]


async def test_a_ping_is_answered_and_a_close_is_returned(session):
    async with session as websocket:
        await asyncio.wait_for(await websocket.ping(b"p"), 10)
        await websocket.close(4000)

    assert websocket.close_code == 4000


@pytest.mark.parametrize(
    "event, code",
    [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        (json.dumps({"type": "dance"}), "unknown_event"),
        (json.dumps({"type": "session.update", "model": "nope"}), "model_not_found"),
        (json.dumps({"type": "input_audio_buffer.append", "audio": "?"}), "invalid_audio"),
        (json.dumps(COMMIT), "model_not_validated"),
    ],
)
async def test_what_cannot_be_done_is_an_error_event(session, event, code):
    async with session as websocket:
        await websocket.send(event)
        assert (await hear(websocket, "error"))[-1]["code"] == code


async def test_a_draining_server_says_so(server, session):
    async with session as websocket:
        server.begin_drain()
        await say(websocket, MODEL, append(b"a"), COMMIT)

        assert (await hear(websocket, "error"))[-1]["code"] == "processing_error"


async def test_other_paths_and_heads_without_a_key_are_forbidden(server):
    with pytest.raises(InvalidStatus) as refused:
        await open_websocket(f"ws://{server.address}/v1/other", proxy=None)
    head = b"GET /v1/realtime HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"

    assert refused.value.response.status_code == 403
    assert (await raw_exchange(server, head)).startswith(b"HTTP/1.1 403 Forbidden\r\n")


@pytest.mark.parametrize("frames", [b"\x81\x02hi", b"\x82\xff" + (2**40).to_bytes(8, "big") + b"mask"])
async def test_frames_against_the_protocol_end_the_connection(server, frames):
    reader, writer = await asyncio.open_connection(server.settings.host, server.port)
    writer.write(
        b"GET /v1/realtime HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(frames)
    rest = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
    assert rest.endswith(b"\x88\x02\x03\xea")


async def test_a_client_that_leaves_frees_the_engine(launch):
    server = await launch(time_scale=1.0, answer_tokens=(300, 300))
    async with open_websocket(f"ws://{server.address}/v1/realtime", proxy=None) as websocket:
        await say(websocket, MODEL, append(b"a"), COMMIT)
        await eventually(lambda: server.core.engine.live_requests == 1)
        websocket.transport.abort()
        await eventually(lambda: server.core.engine.live_requests == 0)


async def test_a_server_that_stops_cuts_its_websockets(server, session):
    async with session as websocket:
        await hear(websocket, "session.created")
        await server.stop()
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(websocket.recv(), 10)
