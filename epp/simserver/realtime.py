"""`/v1/realtime`: speech in, text out over a WebSocket, in vLLM's events."""

import asyncio
import base64
import binascii
import hashlib
import json
import time
import uuid
from http import HTTPStatus
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from epp.simserver.compact import compact_json
from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError
from epp.simserver.requests import parse_conversation
from epp.simserver.websocket import CLOSE, PING, PONG, TEXT, FrameReader, ProtocolError, accept_key, frame

__all__ = ["PATH", "RealtimeProtocol"]

PATH: Final = "/v1/realtime"
_NORMAL: Final = (1000).to_bytes(2, "big")
_PROTOCOL_ERROR: Final = (1002).to_bytes(2, "big")


class RealtimeProtocol(asyncio.Protocol):
    """One WebSocket; made by uvicorn when a request asks for one, and given the request's head first."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        del app_state
        self._core: SimCore = config.app.core  # type: ignore[union-attr]
        self._connections = server_state.connections
        self._frames: FrameReader | None = None
        self._audio = hashlib.blake2b()
        self._model: str | None = None
        self._work: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection was handed over."""
        self.transport = transport  # type: ignore[assignment]
        self._connections.add(self)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left."""
        del exc
        self._connections.discard(self)
        if self._work is not None:
            self._work.cancel()

    def data_received(self, data: bytes) -> None:
        """The head of the request, then frames."""
        if self._frames is None:
            self._shake_hands(data)
            return
        try:
            for opcode, payload in self._frames.feed(data):
                self._take(opcode, payload)
        except ProtocolError:
            self._close(_PROTOCOL_ERROR)

    def _shake_hands(self, head: bytes) -> None:
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = dict(field.split(": ", 1) for field in fields if field)
        key = headers.get("sec-websocket-key")
        if line.split(" ")[1].partition("?")[0] != PATH or key is None:
            status = HTTPStatus.FORBIDDEN
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\n\r\n" % (status, status.phrase.encode())
            )
            self.transport.close()
            return
        self._frames = FrameReader()
        answer = (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            f"sec-websocket-accept: {accept_key(key)}\r\n\r\n"
        )
        self.transport.write(answer.encode())
        self._send("session.created", id=f"sess-{uuid.uuid4().hex}", created=int(time.time()))

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.transport.write(frame(PONG, payload))
        elif opcode == CLOSE:
            self._close(payload[:2] or _NORMAL)
        elif opcode == TEXT:
            self._take_event(payload)

    def _take_event(self, payload: bytes) -> None:
        try:
            event = json.loads(payload)
            kind = event["type"]
        except (ValueError, KeyError, TypeError):
            self._error("Invalid JSON", "invalid_json")
            return
        if kind == "session.update":
            self._update(event.get("model"))
        elif kind == "input_audio_buffer.append":
            self._append(event.get("audio"))
        elif kind == "input_audio_buffer.commit":
            self._commit(final=bool(event.get("final")))
        else:
            self._error(f"Unknown event type: {kind}", "unknown_event")

    def _update(self, model: object) -> None:
        settings = self._core.settings
        if model not in (settings.model, *settings.lora):
            self._error(f"The model `{model}` does not exist.", "model_not_found")
            return
        self._model = str(model)

    def _append(self, audio: object) -> None:
        try:
            self._audio.update(base64.b64decode(audio if isinstance(audio, str) else "", validate=True))
        except binascii.Error:
            self._error("Invalid audio data", "invalid_audio")

    def _commit(self, *, final: bool) -> None:
        """The end of an utterance; a commit that is not final only begins one."""
        if self._model is None:
            message = (
                "Model not validated. Make sure to validate the model by sending a session.update event."
            )
            self._error(message, "model_not_validated")
        elif final and (self._work is None or self._work.done()):
            digest = self._audio.hexdigest()
            self._audio = hashlib.blake2b()
            self._work = self._core.in_background(self._transcribe(self._model, digest))

    async def _transcribe(self, model: str, digest: str) -> None:
        core = self._core
        heard = [{"role": "user", "content": f"<audio>{digest}</audio>"}]
        core.inference_in_flight += 1
        try:
            if core.refusal is not None:
                raise core.refusal()
            request = parse_conversation({"model": model}, heard, None, core.settings, core.vocabulary)
            active = core.generations.start(request, uuid.uuid4().hex)
            text = ""
            try:
                async for piece in active.pieces():
                    text += piece
                    self._send("transcription.delta", delta=piece)
            finally:
                core.generations.end(active)
            self._send("transcription.done", text=text, usage=active.usage.counts())
        except ApiError as error:
            self._error(str(error), "processing_error")
        finally:
            core.inference_in_flight -= 1

    def _send(self, kind: str, **fields: object) -> None:
        self.transport.write(frame(TEXT, compact_json({"type": kind, **fields})))

    def _error(self, message: str, code: str) -> None:
        self._send("error", error=message, code=code)

    def _close(self, status: bytes) -> None:
        self.transport.write(frame(CLOSE, status))
        self.transport.close()
