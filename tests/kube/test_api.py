"""The client: verbs, refusals, and bytes that are cut anywhere."""

import asyncio

import pytest

from epp.discovery.kubernetes.access import Access
from epp.discovery.kubernetes.api import ApiClient, ApiError, Query, Resource, WatchEndedError

PODS = Query(Resource("", "v1", "pods", "ns"), labels="app=vllm")
LINES = [
    b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"name":"","resourceVersion":"7"}}}\n',
    b'{"type":"DELETED","object":{"metadata":{"name":"a"}}}\n',
]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


class Scripted:
    """Answers the one connection that comes with these bytes, one piece after the other."""

    def __init__(self, *pieces):
        self.pieces = pieces

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.client = ApiClient(Access(f"http://127.0.0.1:{port}", "ns", lambda: "", None), stall_s=5)
        return self.client

    async def __aexit__(self, *_exc):
        await self.client.close()
        self.server.close()

    async def serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for piece in self.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()


async def watched(*pieces):
    """Types of the events of a watch."""
    async with Scripted(*pieces) as client:
        return [event.type async for events in client.watch(PODS, "1", 60) for event in events]


async def test_events_come_whole_wherever_their_bytes_are_cut():
    stream = b"".join(LINES)
    for offset in range(0, len(stream), 5):
        assert await watched(HEAD, stream[:offset], stream[offset:]) == ["ADDED", "BOOKMARK", "DELETED"]


@pytest.mark.parametrize(
    "line", [b"{\n", b"[]\n", b'{"type":"ADDED"}\n', b'{"type":"ERROR","object":{"code":410}}\n']
)
async def test_a_line_that_is_no_event_ends_the_watch(line):
    with pytest.raises(WatchEndedError):
        await watched(HEAD, LINES[0], line)


async def test_410_as_a_status_ends_the_watch():
    with pytest.raises(WatchEndedError, match="410 Gone"):
        await watched(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")


async def test_an_event_without_an_end_is_not_kept(monkeypatch):
    monkeypatch.setattr("epp.discovery.kubernetes.api._MAX_LINE", 10)
    with pytest.raises(WatchEndedError, match="has no end"):
        await watched(HEAD, b"x" * 100)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "the answer cannot be read"),
        (
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nhtml",
            "cannot list pods in namespace ns: 502",
        ),
        (b"junk\r\n\r\n", "no answer from http://127.0.0.1"),
    ],
)
async def test_an_answer_that_helps_nobody_names_verb_and_resource(answer, told):
    async with Scripted(answer) as client:
        with pytest.raises(ApiError, match=r"cannot list pods in namespace ns") as raised:
            await client.list_all(PODS)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_server_that_is_not_there_is_told_for_watches_too():
    client = ApiClient(Access("http://127.0.0.1:1", "ns", lambda: "", None), stall_s=5)
    with pytest.raises(ApiError, match="cannot watch pods in namespace ns: no answer"):
        async for _ in client.watch(PODS, "1", 60):
            pass
    await client.close()
