"""The routes that generate, with the faults that a request may ask for."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from epp.simserver.core import SeenRequest, SimCore
from epp.simserver.errors import ApiError, draining, engine_dead, queue_full, sleeping
from epp.simserver.exchange import Exchange
from epp.simserver.faults import FaultPlan
from epp.simserver.generation import ActiveGeneration
from epp.simserver.replies import DONE
from epp.simserver.requests import Generation, parse_chat, parse_completion, parse_json
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["InferenceRoutes"]

LONG_BODY_BYTES = 16_384
"""Bodies above this are parsed and tokenised in a thread, so that streams go on."""

Parser = Callable[[dict[str, Any], SimSettings, Vocabulary], Generation]


class InferenceRoutes:
    """`/v1/chat/completions` and `/v1/completions`."""

    def __init__(self, core: SimCore) -> None:
        self._core = core

    async def chat(self, exchange: Exchange) -> None:
        """POST /v1/chat/completions."""
        await self._infer(exchange, parse_chat)

    async def completion(self, exchange: Exchange) -> None:
        """POST /v1/completions."""
        await self._infer(exchange, parse_completion)

    async def _infer(self, exchange: Exchange, parser: Parser) -> None:
        core = self._core
        core.inference_in_flight += 1
        try:
            body = await exchange.body()
            core.seen.append(SeenRequest(exchange.method, exchange.path, exchange.headers, body))
            fault = _fault_of(core, exchange)
            await _until_gone(exchange, self._serve(exchange, body, parser, fault))
        finally:
            core.inference_in_flight -= 1

    async def _serve(self, exchange: Exchange, body: bytes, parser: Parser, fault: FaultPlan) -> None:
        await asyncio.sleep(fault.slow_head_s)
        if await _fail_before_head(exchange, fault):
            return
        request = await self._parse(exchange, body, parser)
        self._check_admission(request)
        base_id = exchange.header(b"x-request-id") or request.request_id or uuid.uuid4().hex[:16]
        active = self._core.generations.start(request, base_id)
        try:
            if request.stream:
                await self._stream(exchange, active, fault)
            else:
                await self._reply(exchange, active, fault)
        finally:
            self._core.generations.abort(active)

    async def _parse(self, exchange: Exchange, body: bytes, parser: Parser) -> Generation:
        content_type = (exchange.header(b"content-type") or "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            message = "Unsupported Media Type: Only 'application/json' is allowed"
            raise ApiError(400, message, "Bad Request")

        def parse() -> Generation:
            return parser(parse_json(body), self._core.settings, self._core.vocabulary)

        return await asyncio.to_thread(parse) if len(body) > LONG_BODY_BYTES else parse()

    def _check_admission(self, request: Generation) -> None:
        """Refuse what cannot be queued: while draining, asleep, or above `--max-num-queued-reqs`."""
        core = self._core
        if core.draining:
            raise draining()
        if core.sleep_level:
            raise sleeping()
        limit = core.settings.max_num_queued_reqs
        if limit is not None and core.engine.live_requests + len(request.prompts) * request.n > limit:
            core.metrics.on_rejection()
            raise queue_full()

    async def _reply(self, exchange: Exchange, active: ActiveGeneration, fault: FaultPlan) -> None:
        reply = await self._core.generations.reply(active)
        if not fault.body:
            await exchange.answer_json(200, reply)
        elif fault.body == "error-event":
            raise engine_dead()
        else:
            await exchange.answer_half(200, reply)
            await _break(exchange, fault.body)

    async def _stream(self, exchange: Exchange, active: ActiveGeneration, fault: FaultPlan) -> None:
        await exchange.start_stream()
        async for chunk in self._core.generations.stream(active):
            if fault.body and exchange.chunks_sent >= fault.body_chunks:
                await _break(exchange, fault.body)
                return
            await exchange.chunk(chunk)
        await exchange.end_stream()


def _fault_of(core: SimCore, exchange: Exchange) -> FaultPlan:
    try:
        return core.faults.take(exchange.path, exchange.header(b"x-sim-fault"), inference=True)
    except ValueError as error:
        raise ApiError(400, str(error), "BadRequestError", "x-sim-fault") from error


async def _fail_before_head(exchange: Exchange, fault: FaultPlan) -> bool:
    """Do what the fault says instead of serving; False when it says nothing."""
    if fault.status is not None:
        raise queue_full() if fault.status == 503 else ApiError.plain(fault.status)
    match fault.head:
        case "":
            return False
        case "draining":
            raise draining()
        case "engine-dead":
            raise engine_dead()
        case "hang":
            await exchange.gone()
        case "reset-before-head":
            await exchange.reset()
        case "close-before-head":
            await exchange.close()
        case _:
            exchange.write_raw(b"this is not HTTP\r\n\r\n")
            await exchange.close()
    return True


async def _break(exchange: Exchange, fault: str) -> None:
    """End a body that has begun in the way the fault says."""
    match fault:
        case "reset-after":
            await exchange.reset()
        case "truncate":
            await exchange.close()
        case "hang-after":
            await exchange.gone()
        case _:
            await exchange.chunk(b"data: " + engine_dead().body + b"\n\n")
            await exchange.chunk(DONE)
            await exchange.end_stream()


async def _until_gone(exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
    """Do `work`, but drop it as soon as the client has left; its exception is raised here."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
    if not working.cancelled():
        working.result()
