"""Pages of other origins (the Fetch standard's CORS protocol): which of them a browser lets read answers."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from epp.config.web_origin import ANY_ORIGIN, WebOrigin
from epp.http import Headers

__all__ = ["ORIGIN", "CrossOrigin"]

ORIGIN: Final = b"origin"
_ASKED_METHOD: Final = b"access-control-request-method"
_ASKED_HEADERS: Final = b"access-control-request-headers"
_OURS: Final = b"access-control-"
# Headers of answers that pages may read beside those that they always may.
_SHOWN: Final = b"x-request-id, x-epp-endpoint, x-epp-decision, x-llm-d-request-dropped-reason, retry-after"
_MAX_AGE_S: Final = b"600"

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class CrossOrigin:
    """Answers preflights, and says on every other answer whether the page that asked may read it.

    What an endpoint says of that is dropped: who may read is decided here.
    """

    def __init__(self, origins: Iterable[WebOrigin]) -> None:
        self._origins = frozenset(origin.text.encode("ascii") for origin in origins)
        self._any = ANY_ORIGIN.encode("ascii") in self._origins

    async def serve(self, serve: Serve, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, by `serve` unless it is a preflight."""
        asked = dict(reversed(scope["headers"]))
        origin: bytes | None = asked.get(ORIGIN)
        if origin is not None and scope["method"] == "OPTIONS" and _ASKED_METHOD in asked:
            await send(
                {"type": "http.response.start", "status": 204, "headers": self._permits(asked, origin)}
            )
            await send({"type": "http.response.body", "body": b""})
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._answered(message["headers"], origin)}
            await send(message)

        await serve(scope, receive, answer)

    def _allows(self, origin: bytes) -> bool:
        return self._any or origin.lower() in self._origins

    def _permits(self, asked: dict[bytes, bytes], origin: bytes) -> Headers:
        """What a page may send, if it may at all: whatever it asks for, since the endpoint decides."""
        headers = [(b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers")]
        if self._allows(origin):
            headers += [
                (b"access-control-allow-origin", origin),
                (b"access-control-allow-methods", asked[_ASKED_METHOD]),
                (b"access-control-max-age", _MAX_AGE_S),
            ]
            if _ASKED_HEADERS in asked:
                headers.append((b"access-control-allow-headers", asked[_ASKED_HEADERS]))
        return headers

    def _answered(self, headers: Headers, origin: bytes | None) -> Headers:
        kept = [header for header in headers if not header[0].lower().startswith(_OURS)]
        if not any(name.lower() == b"vary" and value.lower() == b"origin" for name, value in kept):
            kept.append((b"vary", b"Origin"))
        if origin is not None and self._allows(origin):
            kept += [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", _SHOWN)]
        return kept
