"""What people type: curl against the router in front of simulated servers."""

import asyncio
import json
import shutil

import pytest

from tests.e2e.kit import PATIENCE_S, chat

CURL = shutil.which("curl")
pytestmark = pytest.mark.skipif(CURL is None, reason="curl is not installed")
JSON = ("-H", "content-type: application/json")


async def curl(*arguments, data=None):
    """Standard output of `curl -sS`; it must succeed."""
    process = await asyncio.create_subprocess_exec(
        CURL, "-sS", "--noproxy", "*", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate(data)
    assert process.returncode == 0, err
    return out.decode()


@pytest.fixture
async def stage(fleet, route):
    [server] = await fleet(answer_tokens=(5, 5))
    router = await route(server)
    await router.know("sim/llama-8b")
    return server, router


async def test_a_chat(stage):
    server, router = stage
    shown = await curl("-i", router.url + "/v1/chat/completions", *JSON, "-d", json.dumps(chat()))

    assert shown.startswith("HTTP/1.1 200 OK\r\n")
    assert f"\r\nx-epp-endpoint: {server.address}\r\n" in shown


async def test_a_stream_without_buffering(stage):
    _, router = stage
    shown = await curl("-N", router.url + "/v1/chat/completions", *JSON, "-d", json.dumps(chat(stream=True)))

    assert shown.endswith("data: [DONE]\n\n")


async def test_http_1_0(stage):
    _, router = stage
    shown = await curl(
        "-0", "-i", router.url + "/v1/chat/completions", *JSON, "-d", json.dumps(chat(stream=True))
    )

    assert "transfer-encoding" not in shown.partition("\r\n\r\n")[0].lower()
    assert shown.endswith("data: [DONE]\n\n")


async def test_a_large_body_that_waits_for_100_continue(stage):
    _, router = stage
    body = json.dumps(chat("word " * 60_000, max_tokens=1)).encode()
    told = await curl(
        router.url + "/tokenize", *JSON, "-H", "Expect: 100-continue", "--data-binary", "@-", data=body
    )

    assert json.loads(told)["count"] > 60_000


async def test_a_recording_from_a_file_and_from_a_pipe(stage, tmp_path):
    server, router = stage
    recording = tmp_path / "a.wav"
    recording.write_bytes(bytes(range(256)) * 4000)
    url = router.url + "/v1/audio/transcriptions"
    from_file = json.loads(await curl(url, "-F", f"file=@{recording}", "-F", "model=sim/llama-8b"))
    # From a pipe curl does not know the length and sends chunks.
    from_pipe = json.loads(
        await curl(
            url,
            "-H",
            "transfer-encoding: chunked",
            "-F",
            "file=@-;filename=a.wav",
            data=recording.read_bytes(),
        )
    )

    assert from_file == from_pipe
    assert from_file["usage"]["seconds"] == 32
    assert [dict(seen.headers).get(b"transfer-encoding") for seen in server.core.seen] == [None, b"chunked"]


async def test_the_models_of_the_pool(stage):
    _, router = stage
    told = json.loads(await curl(router.url + "/v1/models"))

    assert [model["id"] for model in told["data"]] == ["sim/llama-8b"]


async def test_an_unknown_path_gets_the_endpoints_own_404(stage):
    server, router = stage
    shown = await curl("-i", "-X", "DELETE", router.url + "/v1/nothing?a=b")

    assert shown.startswith("HTTP/1.1 404 Not Found\r\n")
    assert f"x-epp-endpoint: {server.address}" in shown
    assert shown.endswith('{"detail":"Not Found"}')
