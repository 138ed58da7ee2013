"""Bodies, readers and waits that the tests of the simulated server share."""

import asyncio
import json
import re
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures" / "vllm"


def chat(content="hello", **fields):
    """A body of /v1/chat/completions."""
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 4, **fields}


def events(text):
    """Payloads of the events of a stream; the last is [DONE]."""
    lines = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def metric(client, name, **labels):
    """Value of one series on the metrics page, named by the labels it has beside engine and model."""
    page = (await client.get("/metrics")).text
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        found = dict(re.findall(r'(\w+)="([^"]*)"', series))
        if series.partition("{")[0] == name and labels == {
            key: found[key] for key in found if key not in ("engine", "model_name")
        }:
            return float(value)
    raise AssertionError(f"no series {name} {labels}")


async def eventually(condition):
    """Wait until a condition holds that other tasks bring about."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  the condition belongs to code without events
            await asyncio.sleep(0.005)


async def raw_exchange(server, request):
    """Send bytes on a new connection and read until it is closed."""
    reader, writer = await asyncio.open_connection(server.settings.host, server.port)
    writer.write(request)
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    return data


def raw_post(path, body, *headers):
    """Bytes of a POST that asks for the connection to be closed."""
    payload = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "host: sim",
        "content-type: application/json",
        f"content-length: {len(payload)}",
        "connection: close",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload
