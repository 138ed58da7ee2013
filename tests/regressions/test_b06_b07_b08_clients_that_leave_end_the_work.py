"""A client left, and the engine went on. B06 (PS i634, LL i30244): in a stream. B07 (LL i37140): before the first byte.

B08 (VR p215): it was noticed only with the next piece of the answer, and a silent endpoint never sent one.
"""

from tests.e2e.kit import eventually
from tests.regressions.kit import in_flight, post, raw_client


async def leave(endpoint, router, *events, stream=True, half=False):
    """Ask, get `events`, leave; returns when the endpoint's connection is closed and nothing is in flight."""
    client = await raw_client(router)
    await client.send(post(b'{"model":"m","stream":%b}' % (b"true" if stream else b"false")))
    call = await endpoint.call()
    if events:
        await call.stream(*events)
        await client.read_until(events[-1])
    if half:
        client.writer.write_eof()
    else:
        client.leave()
    await call.closed_by_router()
    client.leave()

    async def none():
        return await in_flight(router) == 0

    await eventually(none)
    [decision] = await router.decisions(1)
    return decision["reason"]


async def test_b06_in_the_middle_of_a_stream(theatre):
    assert await leave(*theatre, b"data: 1\n\n", b"data: 2\n\n") == "client_disconnected"


async def test_b07_before_the_first_byte(theatre):
    assert await leave(*theatre, stream=False) == "client_disconnected"


async def test_b08_while_the_endpoint_is_silent(theatre):
    assert await leave(*theatre, b"data: 1\n\n") == "client_disconnected"


async def test_a_half_closed_connection_is_a_client_that_left(theatre):
    assert await leave(*theatre, b"data: 1\n\n", half=True) == "client_disconnected"


async def test_one_that_leaves_takes_nobody_else_along(theatre):
    endpoint, router = theatre
    async with await raw_client(router) as stays:
        await stays.send(post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        await call.stream(b"data: 1\n\n")
        leaves = await raw_client(router)
        await leaves.send(post(b'{"model":"m","stream":true}'))
        other = await endpoint.call()
        leaves.leave()
        await other.closed_by_router()
        await call.end()
        answer = await stays.read_response()

    assert answer.body == b"data: 1\n\n"
