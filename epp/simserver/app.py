"""The ASGI application: finds the route, lets faults happen, answers what routes refuse."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

from epp.simserver.adapters import AdapterRoutes
from epp.simserver.audio import AudioRoutes
from epp.simserver.control import ControlRoutes
from epp.simserver.core import SeenRequest, SimCore
from epp.simserver.errors import ApiError, draining, engine_dead, queue_full
from epp.simserver.exchange import BrokenOffError, Exchange, Receive, Scope, Send
from epp.simserver.inference import InferenceRoutes, InferenceService, is_inference
from epp.simserver.messages import MessageRoutes
from epp.simserver.pooling import PoolingRoutes
from epp.simserver.responses import ResponseRoutes

__all__ = ["SimApp"]

Handler = Callable[[Exchange], Awaitable[None]]

_TO_BE_READ_S = 0.01
"""So long half a head stands before the reset, which else takes it away from its reader."""


class SimApp:
    """Routes of one server; WebSockets are not among them (`RealtimeProtocol`)."""

    def __init__(self, core: SimCore) -> None:
        self.core = core
        self._routes = _routes(core)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        exchange = Exchange(scope, receive, send)
        if self.core.settings.request_id_headers:
            request_id = exchange.header(b"x-request-id") or uuid.uuid4().hex
            exchange.echo_headers.append((b"x-request-id", request_id.encode("latin-1")))
        try:
            await exchange.read()
            await exchange.while_connected(self._serve(exchange))
        except (ConnectionError, BrokenOffError):
            return

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self._take_fault(exchange)
            await self._dispatch(exchange)
        except ApiError as error:
            await exchange.answer(error.status, error.body)

    async def _dispatch(self, exchange: Exchange) -> None:
        methods = self._routes.get(_route_of(exchange.path))
        if methods is None:
            await exchange.answer_json(404, {"detail": "Not Found"})
        elif exchange.method not in methods:
            await exchange.answer_json(405, {"detail": "Method Not Allowed"})
        else:
            await methods[exchange.method](exchange)

    async def _take_fault(self, exchange: Exchange) -> None:
        """Let happen what goes wrong before the head; what befalls the body is left to the exchange."""
        inference = is_inference(exchange.path)
        if inference:
            seen = SeenRequest(exchange.method, exchange.path, exchange.headers, exchange.body)
            self.core.seen.append(seen)
        header = exchange.header(b"x-sim-fault")
        try:
            fault = self.core.faults.take(exchange.path, header, inference=inference)
        except ValueError as error:
            raise ApiError(400, str(error), "BadRequestError", "x-sim-fault") from error
        exchange.fault = fault
        await asyncio.sleep(fault.slow_head_s)
        if fault.status is not None:
            raise queue_full() if fault.status == 503 else ApiError.plain(fault.status)
        if fault.head:
            await _fail_head(exchange, fault.head)


async def _fail_head(exchange: Exchange, fault: str) -> None:
    match fault:
        case "draining":
            raise draining()
        case "engine-dead":
            raise engine_dead()
        case "hang":
            await exchange.gone()
        case "reset-before-head":
            await exchange.reset()
        case "reset-in-head":
            exchange.write_raw(b"HTTP/1.1 200 OK\r\ncontent-type: ")
            await asyncio.sleep(_TO_BE_READ_S)
            await exchange.reset()
        case "close-before-head":
            await exchange.close()
        case _:
            exchange.write_raw(b"this is not HTTP\r\n\r\n")
            await exchange.close()
    raise BrokenOffError


def _route_of(path: str) -> str:
    """The path with a placeholder where it names a response."""
    if not path.startswith("/v1/responses/"):
        return path
    return "/v1/responses/{response_id}" + ("/cancel" if path.endswith("/cancel") else "")


def _routes(core: SimCore) -> dict[str, dict[str, Handler]]:
    """Handlers by path and method."""
    service = InferenceService(core)
    inference = InferenceRoutes(service)
    responses = ResponseRoutes(core, service)
    messages = MessageRoutes(core, service)
    pooling = PoolingRoutes(service)
    audio = AudioRoutes(core, service)
    adapters = AdapterRoutes(core)
    control = ControlRoutes(core)
    routes: dict[str, dict[str, Handler]] = {
        "/v1/chat/completions": {"POST": inference.chat},
        "/v1/completions": {"POST": inference.completion},
        "/v1/responses": {"POST": responses.create},
        "/v1/responses/{response_id}": {"GET": responses.retrieve},
        "/v1/responses/{response_id}/cancel": {"POST": responses.cancel},
        "/v1/messages": {"POST": messages.create},
        "/v1/messages/count_tokens": {"POST": messages.count_tokens},
        "/v1/embeddings": {"POST": pooling.embeddings},
        "/pooling": {"POST": pooling.pooling},
        "/classify": {"POST": pooling.classify},
        **{path: {"POST": pooling.score} for path in ("/score", "/v1/score")},
        **{path: {"POST": pooling.rerank} for path in ("/rerank", "/v1/rerank", "/v2/rerank")},
        "/v1/audio/transcriptions": {"POST": audio.transcribe},
        "/v1/audio/translations": {"POST": audio.transcribe},
        "/v1/models": {"GET": control.models},
        "/tokenize": {"POST": control.tokenize},
        "/detokenize": {"POST": control.detokenize},
        "/health": {"GET": control.health},
        "/ping": {"GET": control.health, "POST": control.health},
        "/version": {"GET": control.version},
        "/load": {"GET": control.load},
        "/metrics": {"GET": control.metrics},
        "/sim/faults": {
            "GET": control.list_faults,
            "POST": control.add_fault,
            "DELETE": control.clear_faults,
        },
    }
    if core.settings.runtime_lora:
        routes |= {
            "/v1/load_lora_adapter": {"POST": adapters.load},
            "/v1/unload_lora_adapter": {"POST": adapters.unload},
        }
    if core.settings.dev_mode:
        routes |= {
            "/reset_prefix_cache": {"POST": control.reset_prefix_cache},
            "/sleep": {"POST": control.sleep},
            "/wake_up": {"POST": control.wake_up},
            "/is_sleeping": {"GET": control.is_sleeping},
        }
    return routes
