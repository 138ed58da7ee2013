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

_TOKENS = 600
_PLAIN_TOKENS = 2500  # many seconds: none may be answered before the outage


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

    def send_streams(self, count, size_bytes=260):
        """Requests whose answers come token by token."""
        self._send(count, self.streams, self._stream, size_bytes)

    def _send(self, count, group, send, size_bytes=260):
        for _ in range(count):
            sent = Sent()
            group.append(sent)
            prompt = english(5000 + len(self._tasks), size_bytes)
            self._tasks.append(asyncio.create_task(self._watch(sent, send(sent, prompt))))

    async def _watch(self, sent, sending):
        try:
            await sending
        except (openai.APIError, httpx.HTTPError) as error:
            sent.error = error

    async def _create(self, prompt, tokens, *, stream):
        return await self._client.completions.with_raw_response.create(
            model="tiny", prompt=prompt, max_tokens=tokens, stream=stream, extra_body={"ignore_eos": True}
        )

    async def _one_piece(self, sent, prompt):
        answer = await self._create(prompt, _PLAIN_TOKENS, stream=False)
        sent.endpoint = answer.headers["x-epp-endpoint"]
        sent.complete = answer.parse().usage.completion_tokens == _PLAIN_TOKENS

    async def _stream(self, sent, prompt):
        answer = await self._create(prompt, _TOKENS, stream=True)
        sent.endpoint = answer.headers["x-epp-endpoint"]
        async for event in answer.parse():
            sent.chunks += 1
            sent.complete = event.choices[0].finish_reason == "length"

    def all_alive(self):
        """No request has failed so far."""
        failed = [sent.error for sent in (*self.plain, *self.streams) if sent.error is not None]
        assert not failed, failed
        return True

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


async def outage(router, client, servers, strike, *, plain, streams, late, waiting=0):
    """Let so many requests run, end a server that has plain ones with `strike`, and wait for all to end.

    `waiting` streams have long prompts that are being computed when it happens, `late` ones come just after.
    Returns the requests, the server that was ended, and the other one.
    """
    crowd = Crowd(client)
    crowd.send_plain(plain)
    await eventually(
        lambda: crowd.all_alive() and router.metric("epp_inflight_requests") == plain,
        "every request was sent on",
    )
    survivor, victim = sorted(servers, key=lambda server: in_flight(router, server))
    crowd.send_streams(streams)
    await crowd.all_streams_begun()
    if waiting:
        crowd.send_streams(waiting, 6000)
        # Streams may end meanwhile, on a fast machine.
        sent = plain + streams + waiting
        await eventually(
            lambda: router.metric("epp_inflight_requests") + router.ended() == sent, "all are sent on"
        )
    strike(victim)
    crowd.send_streams(late)
    await crowd.all_done()
    return crowd, victim, survivor


def check(crowd, victim, survivor):
    """Only streams that the victim had begun are lost, and their clients know."""
    lost = [sent for sent in crowd.streams if not sent.complete]

    assert [sent for sent in lost if not sent.chunks or sent.error is None] == []
    assert {sent.endpoint for sent in lost} <= {victim.address}
    assert [sent for sent in crowd.plain if not sent.complete] == []
    assert {sent.endpoint for sent in crowd.plain} == {survivor.address}


async def check_ejected(router, client, victim, survivor):
    """Nothing is sent to the victim, and the router serves on."""
    await eventually(lambda: router.metric("epp_endpoint_ejected", endpoint=victim.address), "an ejection")
    after = Crowd(client)
    after.send_plain(4)
    await after.all_done()

    assert [(sent.endpoint, sent.complete) for sent in after.plain] == [(survivor.address, True)] * 4


async def test_a_killed_server_costs_no_request_that_had_not_begun_to_stream(router, servers):
    async with router.async_client() as client:
        crowd, victim, survivor = await outage(
            router, client, servers, VllmServer.kill, plain=8, streams=4, waiting=4, late=4
        )
        check(crowd, victim, survivor)
        assert router.metric("epp_retries_total") >= 4
        await check_ejected(router, client, victim, survivor)
    start_all(servers)
    pages.until(lambda: router.metric("epp_endpoint_ready", endpoint=victim.address), "the server is back")


async def test_a_dead_engine_behind_a_living_http_server_costs_no_such_request_either(router, servers):
    async with router.async_client() as client:
        # Three repeats after a 500 are always within the budget of the retry contract.
        crowd, victim, survivor = await outage(
            router, client, servers, VllmServer.kill_engine, plain=3, streams=3, late=0
        )
        check(crowd, victim, survivor)
        assert router.metric("epp_retries_total", kind="engine-down") >= 2
        await check_ejected(router, client, victim, survivor)
