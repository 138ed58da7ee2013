"""The routes that generate."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError, queue_full
from epp.simserver.exchange import Exchange
from epp.simserver.fields import parse_json
from epp.simserver.requests import Generation, parse_chat, parse_completion
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["INFERENCE_PATHS", "InferenceRoutes"]

INFERENCE_PATHS = frozenset({"/v1/chat/completions", "/v1/completions"})
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
            request = await self._parse(exchange, parser)
            self._check_admission(request)
            await self._generate(exchange, request)
        finally:
            core.inference_in_flight -= 1

    async def _generate(self, exchange: Exchange, request: Generation) -> None:
        generations = self._core.generations
        base_id = exchange.header(b"x-request-id") or request.request_id or uuid.uuid4().hex[:16]
        active = generations.start(request, base_id)
        try:
            if not request.stream:
                await exchange.answer_json(200, await active.reply())
                return
            await exchange.start_stream()
            async for chunk in active.stream():
                await exchange.chunk(chunk)
            await exchange.end_stream()
        finally:
            generations.end(active)

    async def _parse(self, exchange: Exchange, parser: Parser) -> Generation:
        content_type = (exchange.header(b"content-type") or "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            message = "Unsupported Media Type: Only 'application/json' is allowed"
            raise ApiError(400, message, "Bad Request")

        def parse() -> Generation:
            return parser(parse_json(exchange.body), self._core.settings, self._core.vocabulary)

        return await asyncio.to_thread(parse) if len(exchange.body) > LONG_BODY_BYTES else parse()

    def _check_admission(self, request: Generation) -> None:
        """Refuse what cannot be queued: while draining, asleep or dead, or above `--max-num-queued-reqs`."""
        core = self._core
        if core.refusal is not None:
            raise core.refusal()
        limit = core.settings.max_num_queued_reqs
        if limit is not None and core.engine.live_requests + len(request.prompts) * request.n > limit:
            core.metrics.on_rejection()
            raise queue_full()
