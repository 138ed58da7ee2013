"""B05 (PS i952, VR p114): a stream was collected first. B21 (LR p2243, SG i9484): load was released at its start."""

from tests.regressions.kit import in_flight, post, raw_client


async def test_each_event_arrives_before_the_next_is_sent_and_the_request_is_in_flight_all_the_time(theatre):
    endpoint, router = theatre
    events = [b"data: %d\n\n" % number for number in range(5)]
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        await call.stream(events[0])
        head = await client.read_head()
        got, loads = [], []
        for following in [*events[1:], None]:
            got.append(await client.read_chunk())
            loads.append(await in_flight(router))
            await (call.events(following) if following else call.end())
        last = await client.read_chunk()
    [decision] = await router.decisions(1)

    assert head.status == 200
    assert got == events
    assert last == b""
    assert loads == [1, 1, 1, 1, 1]
    assert await in_flight(router) == 0
    assert (decision["reason"], decision["response_bytes"]) == ("complete", 45)
