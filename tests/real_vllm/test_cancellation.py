"""A client that leaves frees its place at the server."""

import asyncio

import pytest

from tests.real_vllm import pages

pytestmark = [pytest.mark.realvllm, pytest.mark.timeout(360)]

_TOKENS = 4000
_MOST_STREAMS = 12
_LONG = {
    "model": "tiny",
    "prompt": "Once upon a time",
    "max_tokens": _TOKENS,
    "extra_body": {"ignore_eos": True},
}


def busy(servers):
    """Requests that the engines have."""
    return sum(server.busy() for server in servers)


def generated(servers):
    """Tokens that the engines have made."""
    return sum(pages.read(server.url, "vllm:generation_tokens_total") for server in servers)


def at_rest(servers):
    """A condition: the engines have no request, and have made no token since it was looked at last."""
    seen = []

    def looked_at():
        seen.append(generated(servers))
        return busy(servers) == 0 and seen[-2:] == [seen[-1]] * 2

    return looked_at


def left(router):
    """Requests whose clients have left, as the router counts them."""
    return router.metric("epp_requests_total", reason="client_disconnected")


def close_a_stream(router, servers):
    """Close a stream after its first token; tokens that were made all the same, None: it ended before."""
    before, closed, ended = generated(servers), left(router), router.ended()
    with router.openai.completions.create(**_LONG, stream=True) as stream:
        next(iter(stream))
        for server in servers:
            server.freeze_engine()  # it does not end before it is closed, unless the machine stands still
    pages.until(lambda: router.ended() == ended + 1, "the router ends the request")
    for server in servers:
        server.thaw()
    pages.until(at_rest(servers), "no engine makes tokens")
    return generated(servers) - before if left(router) > closed else None


def test_closing_a_stream_ends_its_generation(router, servers):
    made = []
    while len(made) < 3 and router.ended() < _MOST_STREAMS:
        tokens = close_a_stream(router, servers)
        if tokens is not None:
            made.append(tokens)

    # vLLM 0.32 itself misses the leaving of about one client in thirty, without a router too (docs/real-vllm.md).
    assert [tokens < _TOKENS for tokens in sorted(made)[:2]] == [True, True]


async def leave_before_the_answer(router, servers, count):
    """Send a request that takes seconds, leave before it is answered, and wait until nobody works on it."""
    for server in servers:
        server.freeze_engine()  # the answer cannot come before the client leaves
    async with router.async_client() as client:
        request = asyncio.create_task(client.completions.create(**_LONG))
        await asyncio.to_thread(
            pages.until, lambda: sum(server.load() for server in servers) == 1, "a server has the request"
        )
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await asyncio.to_thread(pages.until, lambda: router.ended() == count, "the router ends the request")
    for server in servers:
        server.thaw()
    await asyncio.to_thread(pages.until, at_rest(servers), "no engine makes tokens")


async def test_leaving_before_the_answer_ends_its_generation(router, servers):
    before = generated(servers)
    for count in (1, 2, 3):
        await leave_before_the_answer(router, servers, count)

    # As above.
    assert generated(servers) - before < 2 * _TOKENS
    assert left(router) == 3
