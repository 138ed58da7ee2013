"""A server that dies costs no request that had not begun to answer. Last, since servers are started again."""

import asyncio
from dataclasses import dataclass

import httpx
import openai
import pytest

from tests.real_vllm import pages
from tests.real_vllm.servers import start_all
from tests.real_vllm.texts import english

pytestmark = [pytest.mark.realvllm, pytest.mark.timeout(360)]

_DOCUMENT = english(7, 1200)
_TOKENS = 600


@dataclass
class Sent:
    """A request as its client saw it; `chunks` counts what a stream brought."""

    endpoint: str | None = None
    chunks: int = 0
    complete: bool = False
    error: Exception | None = None


class Crowd:
    """Clients with requests under way, each for an answer of `_TOKENS` tokens."""

    def __init__(self, client):
        self._client = client
        self._tasks = []
        self.plain = []
        self.streams = []

    def send_plain(self, count, document=""):
        """Requests whose answers come in one piece."""
        self._send(count, self.plain, self._one_piece, document)

    def send_streams(self, count, document=""):
        """Requests whose answers come token by token."""
        self._send(count, self.streams, self._stream, document)

    def _send(self, count, group, send, document):
        for _ in range(count):
            sent = Sent()
            group.append(sent)
            prompt = document + english(5000 + len(self._tasks), 260)
            self._tasks.append(asyncio.create_task(self._watch(sent, send(sent, prompt))))

    async def _watch(self, sent, sending):
        try:
            await sending
        except (openai.APIError, httpx.HTTPError) as error:
            sent.error = error

    async def _create(self, prompt, *, stream):
        return await self._client.completions.with_raw_response.create(
            model="tiny", prompt=prompt, max_tokens=_TOKENS, stream=stream, extra_body={"ignore_eos": True}
        )

    async def _one_piece(self, sent, prompt):
        answer = await self._create(prompt, stream=False)
        sent.endpoint = answer.headers["x-epp-endpoint"]
        sent.complete = answer.parse().usage.completion_tokens == _TOKENS

    async def _stream(self, sent, prompt):
        answer = await self._create(prompt, stream=True)
        sent.endpoint = answer.headers["x-epp-endpoint"]
        async for event in answer.parse():
            sent.chunks += 1
            sent.complete = event.choices[0].finish_reason == "length"

    async def all_streams_begun(self):
        """Every stream has brought something."""
        await eventually(lambda: all(sent.chunks for sent in self.streams), "every stream has begun")

    async def all_done(self):
        """Every request has ended, one way or another."""
        await asyncio.gather(*self._tasks)


async def eventually(condition, what):
    """Wait without holding the clients up."""
    await asyncio.to_thread(pages.until, condition, what)


def in_flight(router, server):
    """Requests that the router has at a server."""
    return router.metric("epp_endpoint_inflight_requests", endpoint=server.address)


def home_and_other(router, servers):
    """The server that holds `_DOCUMENT` from here on, and the one that does not."""
    home = router.complete(_DOCUMENT)
    return sorted(servers, key=lambda server: server.address != home)


async def outage(router, client, victim, strike, *, plain, streams):
    """End the victim with `strike` while it answers so many requests; returns them, not yet at their end."""
    crowd = Crowd(client)
    crowd.send_plain(plain, _DOCUMENT)
    await eventually(lambda: in_flight(router, victim) == plain, "the victim has its requests")
    crowd.send_streams(streams, _DOCUMENT)
    await crowd.all_streams_begun()
    strike()
    return crowd


def check(crowd, victim, survivor, *, begun):
    """Only streams that the victim had begun are lost, and their clients know."""
    lost, kept = crowd.streams[:begun], crowd.streams[begun:] + crowd.plain

    assert {sent.endpoint for sent in lost} == {victim.address}
    assert [sent for sent in lost if sent.complete or sent.error is None] == []
    assert [sent for sent in kept if not sent.complete] == []
    assert {sent.endpoint for sent in kept} == {survivor.address}


async def check_ejected(router, client, victim, survivor):
    """Nothing is sent to the victim, though it holds the document, and the router serves on."""
    await eventually(lambda: router.metric("epp_endpoint_ejected", endpoint=victim.address), "an ejection")
    after = Crowd(client)
    after.send_plain(4, _DOCUMENT)
    await after.all_done()

    assert [(sent.endpoint, sent.complete) for sent in after.plain] == [(survivor.address, True)] * 4


async def test_a_killed_server_costs_no_request_that_had_not_begun_to_stream(router, servers):
    victim, survivor = home_and_other(router, servers)
    async with router.async_client() as client:
        crowd = await outage(router, client, victim, victim.kill, plain=6, streams=3)
        crowd.send_streams(4, _DOCUMENT)
        crowd.send_plain(4)
        await crowd.all_done()
        check(crowd, victim, survivor, begun=3)
        assert router.metric("epp_retries_total") >= 6
        await check_ejected(router, client, victim, survivor)
    start_all(servers)
    pages.until(lambda: router.metric("epp_endpoint_ready", endpoint=victim.address), "the server is back")


async def test_a_dead_engine_behind_a_living_http_server_costs_no_such_request_either(router, servers):
    victim, survivor = home_and_other(router, servers)
    async with router.async_client() as client:
        # Three repeats after a 500 are always within the budget of the retry contract.
        crowd = await outage(router, client, victim, victim.kill_engine, plain=3, streams=2)
        await crowd.all_done()
        check(crowd, victim, survivor, begun=2)
        await check_ejected(router, client, victim, survivor)
