"""`/v1/messages`: Anthropic's API, as vLLM serves it."""

from collections.abc import AsyncIterator
from typing import Any

from epp.simserver.active import ActiveGeneration
from epp.simserver.compact import compact_json
from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError, validation_error
from epp.simserver.exchange import Exchange
from epp.simserver.fields import optional, positive_int
from epp.simserver.inference import InferenceService, json_body
from epp.simserver.replies import Usage, named_event
from epp.simserver.requests import Generation, parse_conversation
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["MessageRoutes"]


class MessageRoutes:
    """Messages and the number of their tokens; errors have Anthropic's shape."""

    def __init__(self, core: SimCore, service: InferenceService) -> None:
        self._core = core
        self._service = service

    async def create(self, exchange: Exchange) -> None:
        """POST /v1/messages."""
        try:
            await self._service.serve_json(exchange, _parse, _answer)
        except ApiError as error:
            await exchange.answer(error.status, _error_body(error))

    async def count_tokens(self, exchange: Exchange) -> None:
        """POST /v1/messages/count_tokens."""
        try:
            data = json_body(exchange)
            request = _parse(data | {"max_tokens": 1}, self._core.settings, self._core.vocabulary)
        except ApiError as error:
            await exchange.answer(error.status, _error_body(error))
            return
        tokens = len(request.prompts[0])
        context = {"original_input_tokens": tokens}
        await exchange.answer_json(200, {"input_tokens": tokens, "context_management": context})


def _parse(data: dict[str, Any], settings: SimSettings, vocabulary: Vocabulary) -> Generation:
    limit = positive_int(data, "max_tokens")
    if limit is None:
        size = f"<dict of {len(data)} items>"
        raise validation_error("missing", "body.max_tokens", "Field required", input=size)
    messages = list(optional(data, "messages", list) or [])
    system = data.get("system")
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return parse_conversation(data, messages, limit, settings, vocabulary)


async def _answer(exchange: Exchange, active: ActiveGeneration) -> None:
    if not active.request.stream:
        text = await active.text()
        await exchange.answer_json(
            200, _message(active, [{"type": "text", "text": text}], _stop_reason(active))
        )
        return
    await exchange.start_stream()
    async for chunk in _events(active):
        await exchange.chunk(chunk)
    await exchange.end_stream()


async def _events(active: ActiveGeneration) -> AsyncIterator[bytes]:
    try:
        begun = False
        async for text in active.pieces():
            if not begun:
                begun = True
                yield _event("message_start", message=_message(active, [], None))
                block = {"type": "text", "text": ""}
                yield _event("content_block_start", index=0, content_block=block)
            yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        yield _event("content_block_stop", index=0)
        delta = {"stop_reason": _stop_reason(active), "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=_usage(active.usage))
        yield _event("message_stop")
    except ApiError as error:
        yield b"event: error\ndata: %s\n\n" % _error_body(error)


def _event(name: str, **fields: object) -> bytes:
    return named_event(name, {"type": name, **fields})


def _message(active: ActiveGeneration, content: list[Any], stop_reason: str | None) -> dict[str, Any]:
    message = {
        "id": f"chatcmpl-{active.base_id}",
        "type": "message",
        "role": "assistant",
        "content": content,
        "model": active.request.model,
        "usage": _usage(active.usage),
    }
    return message if stop_reason is None else message | {"stop_reason": stop_reason}


def _stop_reason(active: ActiveGeneration) -> str:
    return "end_turn" if active.stopped_by_itself else "max_tokens"


def _usage(usage: Usage) -> dict[str, int]:
    """Input tokens are those that the cache did not give."""
    cached = usage.cached_tokens or 0
    counts = {"input_tokens": usage.prompt_tokens - cached, "output_tokens": usage.completion_tokens}
    return counts if usage.cached_tokens is None else counts | {"cache_read_input_tokens": cached}


def _error_body(error: ApiError) -> bytes:
    return compact_json({"type": "error", "error": {"type": error.type, "message": str(error)}})
