"""One request and its answer on a client's connection: uvicorn's, with what it lacks."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn._types import ASGI3Application, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from epp.errors import InternalError
from epp.http.headers import new_request_id
from epp.proxy.errors import render_error
from epp.proxy.heads import request_id_of
from epp.proxy.transport import ClientTransport

__all__ = ["Cycle"]


class Cycle(RequestResponseCycle):
    """A request and its answer.

    Beyond uvicorn's: HTTP/1.0 clients get bodies of unknown length unchunked, ended by the end of the
    connection; an answer can be cut; an exception in the application is answered in our error format.
    """

    transport: ClientTransport

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._ended_by_close = False
        self._on_gone: Callable[[], None] | None = None

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the client has left; see `ABORT_EXTENSION`."""
        self._on_gone = callback

    async def run_asgi(self, app: ASGI3Application) -> None:
        """Serve the request; one that is cancelled at the end of the server is cut without a word."""

        async def cancellable(scope: Any, receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            except asyncio.CancelledError:
                self.abort()

        await super().run_asgi(cancellable)

    async def send(self, message: ASGISendEvent) -> None:
        """Write one ASGI message."""
        if self.scope["http_version"] == "1.0":
            self._frame_without_chunks(message)
        await super().send(message)

    def _frame_without_chunks(self, message: ASGISendEvent) -> None:
        # uvicorn checks a body without chunks against an announced length; what comes is what was announced.
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            if b"content-length" not in names:
                self.chunked_encoding = False
                self._ended_by_close = True
        elif self._ended_by_close and message["type"] == "http.response.body":
            self.expected_content_length = len(message.get("body", b""))

    def abort(self) -> None:
        """Cut the connection so that the client can tell that its answer is not complete."""
        self.disconnect()
        if self._ended_by_close:
            self.transport.reset()
        else:
            self.transport.cut()

    def disconnect(self) -> None:
        """Nothing more can be sent; the application learns it from `receive`."""
        self.disconnected = True
        self.message_event.set()
        if self._on_gone is not None:
            self._on_gone()

    async def send_500_response(self) -> None:
        """Answer for an application that raised or returned without an answer."""
        request_id = request_id_of(list(self.scope["headers"]), new_request_id)
        response = render_error(InternalError("internal error"), request_id, close=True)
        await self.send(
            {"type": "http.response.start", "status": response.status, "headers": response.headers}
        )
        await self.send({"type": "http.response.body", "body": response.body, "more_body": False})
