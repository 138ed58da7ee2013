"""Streaming: at once, unchanged, observed."""

from tests.proxy.harness import post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, chunk


async def test_each_event_reaches_the_client_before_the_next_is_sent(stage):
    async with stage() as s, await s.client() as client:
        await client.send(post())
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(SSE_HEAD)
        head = await client.read_head()
        assert head.status == 200
        for number in range(5):
            event = b'data: {"n":%d}\n\n' % number
            await endpoint.send(chunk(event))
            assert await client.read_chunk() == event
        await endpoint.send(LAST_CHUNK)
        assert await client.read_chunk() == b""
        ended = await s.director.ended()
        assert ended.reason == "complete"
        assert ended.response_bytes == 75
