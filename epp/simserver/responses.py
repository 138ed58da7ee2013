"""`/v1/responses`: OpenAI's API whose answers the server keeps (VLLM_ENABLE_RESPONSES_API_STORE=1)."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from epp.simserver.active import ActiveGeneration
from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError
from epp.simserver.exchange import Exchange
from epp.simserver.fields import optional, positive_int
from epp.simserver.inference import InferenceService, json_body
from epp.simserver.replies import named_event
from epp.simserver.requests import Generation, parse_conversation
from epp.simserver.response_shapes import completed, output_item, response_object

__all__ = ["ResponseRoutes"]

Messages = list[dict[str, Any]]


@dataclass(slots=True)
class _Stored:
    """A response in memory, and the conversation that it ends."""

    shown: dict[str, Any]
    messages: Messages = field(default_factory=list)
    work: asyncio.Task[None] | None = None


class ResponseRoutes:
    """Creating, retrieving, cancelling, continuing."""

    def __init__(self, core: SimCore, service: InferenceService) -> None:
        self._core = core
        self._service = service
        self._stored: dict[str, _Stored] = {}

    async def create(self, exchange: Exchange) -> None:
        """POST /v1/responses."""
        data = json_body(exchange)
        messages = self._history(data) + _input_messages(data)

        def parse() -> Generation:
            limit = positive_int(data, "max_output_tokens")
            core = self._core
            return parse_conversation(data, messages, limit, core.settings, core.vocabulary)

        if optional(data, "background", bool):
            await self._begin_in_background(
                exchange, data, messages, await self._service.parsed(exchange, parse)
            )
            return

        async def answer(exchange: Exchange, active: ActiveGeneration) -> None:
            stored = self._store(data, messages, active.request, "in_progress")
            if active.request.stream:
                await exchange.start_stream()
                async for event in self._events(stored, active):
                    await exchange.chunk(event)
                await exchange.end_stream()
                return
            self._complete(stored, await active.text(), active)
            await exchange.answer_json(200, stored.shown)

        await self._service.serve(exchange, parse, answer)

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/responses/{response_id}."""
        await exchange.answer_json(200, self._find(exchange.path.split("/")[3]).shown)

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/responses/{response_id}/cancel."""
        stored = self._find(exchange.path.split("/")[3])
        if stored.shown["status"] not in ("queued", "in_progress") or stored.work is None:
            message = "Cannot cancel a synchronous response."
            raise ApiError(400, message, "invalid_request_error", "response_id")
        stored.shown["status"] = "cancelled"
        stored.work.cancel()
        await exchange.answer_json(200, stored.shown)

    def _find(self, response_id: str) -> _Stored:
        stored = self._stored.get(response_id)
        if stored is None:
            message = f"Response with id '{response_id}' not found."
            raise ApiError(404, message, "invalid_request_error", "response_id")
        return stored

    def _history(self, data: dict[str, Any]) -> Messages:
        previous = optional(data, "previous_response_id", str)
        return [] if previous is None else self._find(previous).messages

    def _store(self, data: dict[str, Any], messages: Messages, request: Generation, status: str) -> _Stored:
        response_id = request.request_id or f"resp_{uuid.uuid4().hex}"
        stored = _Stored(response_object(response_id, data, request, status), messages)
        if optional(data, "store", bool) is not False:
            self._stored[response_id] = stored
        return stored

    def _complete(self, stored: _Stored, text: str, active: ActiveGeneration) -> None:
        completed(stored.shown, text, active)
        stored.messages = [*stored.messages, {"role": "assistant", "content": text}]

    async def _begin_in_background(
        self, exchange: Exchange, data: dict[str, Any], messages: Messages, request: Generation
    ) -> None:
        stored = self._store(data, messages, request, "queued")

        async def work() -> None:
            active = self._core.generations.start(request, stored.shown["id"])
            try:
                stored.shown["status"] = "in_progress"
                self._complete(stored, await active.text(), active)
            except ApiError:
                stored.shown["status"] = "failed"
            finally:
                self._core.generations.end(active)

        stored.work = self._core.in_background(work())
        await exchange.answer_json(200, stored.shown)

    async def _events(self, stored: _Stored, active: ActiveGeneration) -> AsyncIterator[bytes]:
        """The events of one message in vLLM's order, numbered."""
        number = 0

        def event(name: str, **fields: object) -> bytes:
            nonlocal number
            number += 1
            return named_event(name, {**fields, "sequence_number": number - 1, "type": name})

        item = output_item("", "in_progress")
        place = {"content_index": 0, "item_id": item["id"], "output_index": 0}
        yield event("response.created", response=stored.shown)
        yield event("response.in_progress", response=stored.shown)
        yield event("response.output_item.added", item=item | {"content": []}, output_index=0)
        yield event("response.content_part.added", **place, part=item["content"][0])
        text = ""
        try:
            async for piece in active.pieces():
                text += piece
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
        except ApiError as error:
            yield b"event: error\ndata: %s\n\n" % error.body
            return
        self._complete(stored, text, active)
        done = stored.shown["output"][0]
        done["id"] = item["id"]
        yield event("response.output_text.done", **place, logprobs=[], text=text)
        yield event("response.content_part.done", **place, part=done["content"][0])
        yield event("response.output_item.done", item=done, output_index=0)
        name = "response.completed" if stored.shown["status"] == "completed" else "response.incomplete"
        yield event(name, response=stored.shown)


def _input_messages(data: dict[str, Any]) -> Messages:
    """Instructions, then the input: a text, or items, of which some are messages."""
    found: Messages = []
    instructions = optional(data, "instructions", str)
    if instructions:
        found.append({"role": "system", "content": instructions})
    given = data.get("input")
    if isinstance(given, str):
        return [*found, {"role": "user", "content": given}]
    for item in optional(data, "input", list) or []:
        is_message = isinstance(item, dict) and "role" in item
        found.append(item if is_message else {"role": "tool", "content": [item]})
    return found
