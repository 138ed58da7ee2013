"""Uploads of recordings to the simulated server."""

import pytest

from tests.simserver.kit import events

RECORDING = b"RIFF\x00\xff\r\n--x\r\n" * 4000


@pytest.fixture
async def client(launch, connect):
    return await connect(await launch(answer_tokens=(3, 3)))


async def transcribe(client, data=RECORDING, path="/v1/audio/transcriptions", **fields):
    form = {"model": "sim/llama-8b", **fields}
    return await client.post(path, data=form, files={"file": ("a.wav", data, "audio/wav")})


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/audio/translations"])
async def test_a_recording_gets_a_text_and_its_length(client, path):
    answer = (await transcribe(client, path=path)).json()

    assert len(answer["text"].split()) == 3
    assert answer["usage"] == {"type": "duration", "seconds": 2}


async def test_the_text_depends_on_every_byte_of_the_recording(client):
    one, again, other = [(await transcribe(client, data)).json()["text"] for data in (b"a", b"a", b"b")]
    assert one == again != other


async def test_the_text_can_be_had_plain(client):
    answer = await transcribe(client, response_format="text")

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert len(answer.text.split()) == 3


async def test_the_text_can_be_streamed(client):
    *chunks, end, done = events((await transcribe(client, stream="true")).text)

    assert len("".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks).split()) == 3
    assert end["choices"][0]["finish_reason"] == "stop"
    assert {chunk["object"] for chunk in chunks} == {"transcription.chunk"}
    assert done == "[DONE]"


async def test_an_error_in_a_stream_is_an_event(client):
    answer = await client.post(
        "/v1/audio/transcriptions",
        data={"stream": "true"},
        files={"file": b"a"},
        headers={"x-sim-fault": "error-event=1"},
    )
    assert events(answer.text)[-2]["error"]["type"] == "InternalServerError"


async def test_a_form_without_a_file_and_what_is_no_form_are_refused(client):
    missing = await client.post("/v1/audio/transcriptions", data={}, files={"other": b"a"})
    plain = await client.post("/v1/audio/transcriptions", json={"file": "a"})

    assert (missing.status_code, plain.status_code) == (400, 400)
    assert "body.file" in missing.json()["error"]["message"]
    assert "multipart" in plain.json()["error"]["message"]


async def test_an_unknown_model_is_not_found(client):
    assert (await transcribe(client, model="nope")).status_code == 404
