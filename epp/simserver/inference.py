"""The way of a request to the engine, and the routes that generate as OpenAI's first APIs do."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from epp.simserver.active import ActiveGeneration
from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError, queue_full
from epp.simserver.exchange import Exchange
from epp.simserver.fields import parse_json
from epp.simserver.requests import Generation, parse_chat, parse_completion
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["InferenceRoutes", "InferenceService", "Parser", "is_inference", "json_body"]

_INFERENCE_PATHS = frozenset(
    {
        "/classify",
        "/pooling",
        "/rerank",
        "/score",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/messages",
        "/v1/rerank",
        "/v1/responses",
        "/v1/score",
        "/v2/rerank",
    }
)
LONG_BODY_BYTES = 16_384
"""Bodies above this are parsed and tokenised in a thread, so that streams go on."""

Parser = Callable[[dict[str, Any], SimSettings, Vocabulary], Generation]
Answerer = Callable[[Exchange, ActiveGeneration], Awaitable[None]]


def is_inference(path: str) -> bool:
    """The path asks the engine for something, or for a response that it made."""
    return path in _INFERENCE_PATHS or path.startswith("/v1/responses/")


def json_body(exchange: Exchange) -> dict[str, Any]:
    """The body as JSON object; raises ApiError when it is none, or not said to be one."""
    content_type = (exchange.header(b"content-type") or "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        message = "Unsupported Media Type: Only 'application/json' is allowed"
        raise ApiError(400, message, "Bad Request")
    return parse_json(exchange.body)


class InferenceService:
    """Parses, admits, starts and ends what goes to the engine."""

    def __init__(self, core: SimCore) -> None:
        self._core = core

    async def serve_json(self, exchange: Exchange, parser: Parser, answer: Answerer) -> None:
        """Serve a request whose body is JSON."""
        core = self._core
        await self.serve(
            exchange, lambda: parser(json_body(exchange), core.settings, core.vocabulary), answer
        )

    async def serve(self, exchange: Exchange, parse: Callable[[], Generation], answer: Answerer) -> None:
        """Give the engine what `parse` finds in the body, and let `answer` write what comes of it."""
        core = self._core
        core.inference_in_flight += 1
        try:
            request = await self.parsed(exchange, parse)
            base_id = exchange.header(b"x-request-id") or request.request_id or uuid.uuid4().hex[:16]
            active = core.generations.start(request, base_id)
            try:
                await answer(exchange, active)
            finally:
                core.generations.end(active)
        finally:
            core.inference_in_flight -= 1

    async def parsed(self, exchange: Exchange, parse: Callable[[], Generation]) -> Generation:
        """What the body asks for, unless it is refused; raises ApiError."""
        arrived_s = self._core.runner.now()
        long = len(exchange.body) > LONG_BODY_BYTES
        request = await asyncio.to_thread(parse) if long else parse()
        await self._on_the_way(request, arrived_s)
        self._check_admission(request)
        return request

    async def _on_the_way(self, request: Generation, arrived_s: float) -> None:
        """Wait until a real server's front end would be through with it."""
        settings, runner = self._core.settings, self._core.runner
        api_s = settings.api_s + settings.api_token_s * sum(map(len, request.prompts))
        left_s = arrived_s + api_s - runner.now()
        if left_s > 0:
            await asyncio.sleep(left_s / settings.time_scale)

    def _check_admission(self, request: Generation) -> None:
        """Refuse what cannot be queued: while draining, asleep or dead, or above `--max-num-queued-reqs`."""
        core = self._core
        if core.refusal is not None:
            raise core.refusal()
        limit = core.settings.max_num_queued_reqs
        if limit is not None and core.engine.live_requests + len(request.prompts) * request.n > limit:
            core.metrics.on_rejection()
            raise queue_full()


class InferenceRoutes:
    """`/v1/chat/completions` and `/v1/completions`."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    async def chat(self, exchange: Exchange) -> None:
        """POST /v1/chat/completions."""
        await self._service.serve_json(exchange, parse_chat, _answer)

    async def completion(self, exchange: Exchange) -> None:
        """POST /v1/completions."""
        await self._service.serve_json(exchange, parse_completion, _answer)


async def _answer(exchange: Exchange, active: ActiveGeneration) -> None:
    if not active.request.stream:
        await exchange.answer_json(200, await active.reply())
        return
    await exchange.start_stream()
    async for chunk in active.stream():
        await exchange.chunk(chunk)
    await exchange.end_stream()
