"""A server that dies costs no request that had not begun to answer. Last, since servers are started again."""

import asyncio
from dataclasses import dataclass

import httpx
import openai
import pytest

from tests.real_vllm import pages
from tests.real_vllm.servers import VllmServer, start_all
from tests.real_vllm.texts import english

pytestmark = [pytest.mark.realvllm, pytest.mark.timeout(360)]

_STREAM_TOKENS = 1500  # seconds: the server dies while it streams
_PLAIN_TOKENS = 100
_MOST_SENT = 16  # plain requests, until the victim has its share of them


@dataclass
class Sent:
    """A request as its client saw it; `chunks` counts what a stream brought."""

    endpoint: str | None = None
    chunks: int = 0
    complete: bool = False
    error: Exception | None = None


class Crowd:
    """Clients with requests under way."""

    def __init__(self, client):
        self._client = client
        self._tasks = []
        self.plain = []
        self.streams = []

    def send_plain(self, count):
        """Requests whose answers come in one piece."""
        self._send(count, self.plain, self._one_piece)

    def send_streams(self, count):
        """Requests whose answers come token by token."""
        self._send(count, self.streams, self._stream)

    def _send(self, count, group, send):
        """All have one prompt, so that they are drawn to the server that has the first."""
        for _ in range(count):
            sent = Sent()
            group.append(sent)
            self._tasks.append(asyncio.create_task(self._watch(sent, send(sent, english(5000, 2000)))))

    async def _watch(self, sent, sending):
        try:
            await sending
        except (openai.APIError, httpx.HTTPError) as error:
            sent.error = error

    async def _create(self, prompt, max_tokens, *, stream):
        return await self._client.completions.with_raw_response.create(
            model="tiny",
            prompt=prompt,
            max_tokens=max_tokens,
            stream=stream,
            extra_body={"ignore_eos": True},
        )

    async def _one_piece(self, sent, prompt):
        answer = await self._create(prompt, _PLAIN_TOKENS, stream=False)
        sent.endpoint = answer.headers["x-epp-endpoint"]
        sent.complete = answer.parse().usage.completion_tokens == _PLAIN_TOKENS

    async def _stream(self, sent, prompt):
        answer = await self._create(prompt, _STREAM_TOKENS, stream=True)
        sent.endpoint = answer.headers["x-epp-endpoint"]
        async for event in answer.parse():
            sent.chunks += 1
            sent.complete = event.choices[0].finish_reason == "length"

    def alive(self):
        """Whether no request has failed so far."""
        failed = [sent.error for sent in (*self.plain, *self.streams) if sent.error is not None]
        assert not failed, failed
        return True

    def begun(self):
        """The streams that have brought something."""
        return [sent for sent in self.streams if sent.chunks]

    async def all_done(self):
        """Every request has ended, one way or another."""
        await asyncio.gather(*self._tasks)


async def eventually(condition, what):
    """Wait without holding the clients up."""
    await asyncio.to_thread(pages.until, condition, what)


def in_flight(router, server):
    """Requests that the router has at a server."""
    return router.metric("epp_endpoint_inflight_requests", endpoint=server.address)


async def outage(router, client, servers, *, freeze, strike, plain, late=0):
    """End a server that streams and that at least `plain` requests wait for; wait for all requests to end.

    Both servers are stopped by `freeze` as soon as one streams: neither answers nor changes its load until
    `strike` ends the victim, however slow the machine is, so both get their share. `late` streams come after.
    Returns the requests, the server that was ended, and the other one.
    """
    crowd = Crowd(client)
    crowd.send_streams(1)
    await eventually(lambda: crowd.alive() and crowd.begun(), "a stream has begun")
    survivor, victim = sorted(servers, key=lambda server: server.address == crowd.begun()[0].endpoint)
    for server in servers:
        freeze(server)
    before = in_flight(router, victim)
    while in_flight(router, victim) < before + plain:
        assert len(crowd.plain) < _MOST_SENT, "the victim gets none of them"
        crowd.send_plain(1)
        known = len(crowd.plain) + len(crowd.streams)
        await eventually(
            lambda known=known: router.ended() + router.metric("epp_inflight_requests") == known,
            "it is sent on",
        )
    strike(victim)
    survivor.thaw()
    crowd.send_streams(late)
    await crowd.all_done()
    return crowd, victim, survivor


def check(crowd, victim, survivor):
    """Only streams that the victim had begun are lost, and their clients know."""
    lost = [sent for sent in crowd.streams if not sent.complete]

    assert [sent for sent in lost if not sent.chunks or sent.error is None] == []
    assert {sent.endpoint for sent in lost} <= {victim.address}
    assert [sent for sent in crowd.plain if not sent.complete or sent.error] == []
    assert {sent.endpoint for sent in crowd.plain} == {survivor.address}


async def check_ejected(router, client, victim, survivor):
    """Nothing is sent to the victim, and the router serves on."""
    await eventually(lambda: router.metric("epp_endpoint_ejected", endpoint=victim.address), "an ejection")
    after = Crowd(client)
    after.send_plain(4)
    await after.all_done()

    assert [(sent.endpoint, sent.complete, sent.error) for sent in after.plain] == [
        (survivor.address, True, None)
    ] * 4


async def test_a_killed_server_costs_no_request_that_had_not_begun_to_stream(router, servers):
    async with router.async_client() as client:
        crowd, victim, survivor = await outage(
            router, client, servers, freeze=VllmServer.freeze, strike=VllmServer.kill, plain=4, late=4
        )
        check(crowd, victim, survivor)
        assert router.metric("epp_retries_total") >= 4
        await check_ejected(router, client, victim, survivor)
    start_all(servers)
    pages.until(lambda: router.metric("epp_endpoint_ready", endpoint=victim.address), "the server is back")


async def test_a_dead_engine_behind_a_living_http_server_costs_no_such_request_either(router, servers):
    async with router.async_client() as client:
        # Two repeats after a 500 are always within the budget of the retry contract.
        crowd, victim, survivor = await outage(
            router, client, servers, freeze=VllmServer.freeze_engine, strike=VllmServer.kill_engine, plain=2
        )
        check(crowd, victim, survivor)
        assert router.metric("epp_retries_total", kind="engine-down") >= 2
        await check_ejected(router, client, victim, survivor)
    victim.kill()  # what is left of it is still shutting down
