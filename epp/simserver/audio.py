"""`/v1/audio/transcriptions` and `/v1/audio/translations`: multipart uploads, text or events back."""

import hashlib
import time
import uuid
from collections.abc import AsyncIterator
from email import policy
from email.parser import BytesParser
from typing import Any

from epp.simserver.active import ActiveGeneration
from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError, validation_error
from epp.simserver.exchange import Exchange
from epp.simserver.inference import InferenceService
from epp.simserver.replies import DONE, event
from epp.simserver.requests import Generation, parse_conversation

__all__ = ["AudioRoutes", "form_fields"]

BYTES_PER_SECOND = 32_000
"""PCM of 16 bits at 16 kHz; every file is taken for it."""


class AudioRoutes:
    """The prompt is a fixed run of tokens that depends on the recording, and the language."""

    def __init__(self, core: SimCore, service: InferenceService) -> None:
        self._core = core
        self._service = service

    async def transcribe(self, exchange: Exchange) -> None:
        """POST /v1/audio/transcriptions, and translations, which differ in the model's mind only."""
        fields: dict[str, bytes] = {}

        def parse() -> Generation:
            fields.update(form_fields(exchange.header(b"content-type") or "", exchange.body))
            return self._generation(fields)

        async def answer(exchange: Exchange, active: ActiveGeneration) -> None:
            if active.request.stream:
                await exchange.start_stream()
                async for chunk in _events(active):
                    await exchange.chunk(chunk)
                await exchange.end_stream()
            elif fields.get("response_format") == b"text":
                await exchange.answer(200, (await active.text()).encode(), b"text/plain; charset=utf-8")
            else:
                seconds = -(-len(fields["file"]) // BYTES_PER_SECOND)
                usage = {"type": "duration", "seconds": seconds}
                await exchange.answer_json(200, {"text": await active.text(), "usage": usage})

        await self._service.serve(exchange, parse, answer)

    def _generation(self, fields: dict[str, bytes]) -> Generation:
        if "file" not in fields:
            raise validation_error("missing", "body.file", "Field required")
        digest = hashlib.blake2b(fields["file"]).hexdigest()
        data: dict[str, Any] = {"stream": fields.get("stream") == b"true"}
        if "model" in fields:
            data["model"] = fields["model"].decode()
        heard = [
            {"role": "user", "content": f"<audio>{digest}</audio>{fields.get('language', b'').decode()}"}
        ]
        return parse_conversation(data, heard, None, self._core.settings, self._core.vocabulary)


def form_fields(content_type: str, body: bytes) -> dict[str, bytes]:
    """The fields of a multipart form by name (RFC 7578); raises ApiError when it is none."""
    head = f"content-type: {content_type}\r\nmime-version: 1.0\r\n\r\n".encode("latin-1", "replace")
    message = BytesParser(policy=policy.HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise ApiError(400, "Missing boundary in multipart.", "Bad Request")
    fields: dict[str, bytes] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content
    return fields


async def _events(active: ActiveGeneration) -> AsyncIterator[bytes]:
    head = {
        "id": f"trsc-{uuid.uuid4().hex}",
        "object": "transcription.chunk",
        "created": int(time.time()),
        "model": active.request.model,
    }
    try:
        async for text in active.pieces():
            choice = {"delta": {"content": text}, "finish_reason": None, "stop_reason": None}
            yield event({**head, "choices": [choice]})
        reason = "stop" if active.stopped_by_itself else "length"
        yield event({**head, "choices": [{"delta": {}, "finish_reason": reason, "stop_reason": None}]})
    except ApiError as error:
        yield b"data: " + error.body + b"\n\n"
    yield DONE
