"""Bodies that are forwarded as they come, because nothing of them is needed for routing."""

import asyncio
from collections.abc import Mapping
from typing import Final

from epp.errors import ClientDisconnectedError
from epp.http import BodyWriter
from epp.proxy.asgi import Headers, Receive
from epp.proxy.intake import announced_length, too_large
from epp.request import Api, api_of, model_in_form

__all__ = ["ClientUpload", "is_forwarded_unread"]

# Up to here a body is read first: it may then go out on a kept connection.
_SMALL_BYTES: Final = 65_536
_PEEK_BYTES: Final = 16_384
_LOOK_AGAIN_BYTES: Final = 1024  # a body that comes byte by byte is not looked at with each
_WITH_MODEL: Final = "/v1/audio/"


def is_forwarded_unread(method: str, path: str, headers: Headers) -> bool:
    """Whether the body shows no prompt and is large, or of a size that is not known."""
    if method == "POST" and api_of(path) is not Api.OTHER:
        return False
    if any(name == b"transfer-encoding" for name, _ in headers):
        return True
    return (announced_length(headers) or 0) > _SMALL_BYTES


class ClientUpload:
    """A body on its way from an ASGI client to an endpoint: the `BodyStream` of `epp.http`.

    Attributes:
        length: announced by the client; None when it sends chunks.
        size: bytes that came.
        complete: all of them were handed on.
    """

    def __init__(self, headers: Headers, receive: Receive, max_bytes: int) -> None:
        self.length = announced_length(headers)
        self.size = 0
        self.complete = False
        self._receive = receive
        self._max_bytes = max_bytes
        self._writer: BodyWriter | None = None
        self._may_write = asyncio.Event()
        self._peeked: list[bytes] = []
        self._received_all = False

    def begin(self, writer: BodyWriter) -> None:
        """The connection: the head is written."""
        self._writer = writer
        self._may_write.set()

    def pause(self) -> None:
        """The connection: the endpoint does not take what there is."""
        self._may_write.clear()

    def resume(self) -> None:
        """The connection: the endpoint takes more."""
        self._may_write.set()

    def stop(self) -> None:
        """The connection: the exchange is over."""
        self._may_write.clear()

    async def model(self, path: str, headers: Mapping[str, str]) -> str | None:
        """The model that a form for `path` names near its beginning; nothing is handed on yet.

        Raises:
            ClientDisconnectedError, PayloadTooLargeError.
        """
        content_type = headers.get("content-type", "")
        if not path.startswith(_WITH_MODEL) or not content_type.lower().startswith("multipart/"):
            return None
        look_at = 1
        while True:
            at_end = self._received_all or self.size >= _PEEK_BYTES
            if at_end or self.size >= look_at:
                model = model_in_form(content_type, b"".join(self._peeked))
                if model is not None or at_end:
                    return model
                look_at = self.size + _LOOK_AGAIN_BYTES
            self._peeked.append(await self._next())

    async def forward(self) -> None:
        """Hand everything on, as fast as the endpoint takes it.

        Raises:
            ClientDisconnectedError, PayloadTooLargeError.
        """
        while not self.complete:
            await self._may_write.wait()
            data = self._peeked.pop(0) if self._peeked else await self._next()
            self.complete = self._received_all and not self._peeked
            writer = self._writer
            if writer is None:
                raise AssertionError("a connection that lets write has begun")
            # Where the exchange is over by this time, the writer does nothing.
            writer.write(data)
            if self.complete:
                writer.end()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            raise ClientDisconnectedError("the client left before the end of its request")
        data: bytes = message.get("body", b"")
        self.size += len(data)
        if self.size > self._max_bytes:
            raise too_large(self._max_bytes)
        self._received_all = not message.get("more_body", False)
        return data
