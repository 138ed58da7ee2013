"""B22 (GIE p2717): hooks on responses ran inline and slowed down every token. A hook and 100 events."""

import asyncio

from epp.director.director import Director


async def test_a_stream_of_100_events_calls_the_director_as_often_as_one_of_two(theatre, monkeypatch):
    endpoint, router = theatre
    calls = []
    for name in ("on_response_head", "on_first_byte", "on_end", "response_headers"):
        plain = getattr(Director, name)

        def counted(self, *args, name=name, plain=plain, **more):
            calls.append(name)
            return plain(self, *args, **more)

        monkeypatch.setattr(Director, name, counted)

    async def stream(count):
        calls.clear()
        asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
        call = await endpoint.call()
        await call.stream(*[b"data: %d\n\n" % number for number in range(count)])
        await call.end()
        assert (await asking).text.count("data:") == count
        return sorted(calls)

    two, hundred = await stream(2), await stream(100)

    assert two == hundred == ["on_end", "on_first_byte", "on_response_head", "response_headers"]
