"""One WebSocket, from its handshake to the end of its connection: bytes in both directions, pinned."""

from typing import Final
from urllib.parse import parse_qs

from epp.director import EndReason
from epp.http import BodyWriter, UpstreamRequest
from epp.proxy.answer import Answer
from epp.proxy.asgi import Receive, Scope, Send
from epp.proxy.frames import GOING_AWAY, FrameTracker
from epp.proxy.relayed import CutError, RelayedRequest
from epp.proxy.surroundings import Surroundings
from epp.proxy.upgrade import UPGRADE_EXTENSION, WebSocketOffer

__all__ = ["TunnelledRequest"]

_REALTIME: Final = "/v1/realtime"
_SWITCHING: Final = 101


class _Upstream:
    """The client's bytes on their way to the endpoint: the `BodyStream` of `epp.http`."""

    length: int | None = None

    def __init__(self, client: WebSocketOffer) -> None:
        self.size = 0
        self._client = client
        self._writer: BodyWriter | None = None

    def begin(self, writer: BodyWriter) -> None:
        """The endpoint has agreed."""
        self._writer = writer

    def pause(self) -> None:
        """The endpoint does not take what there is."""
        self._client.pause()

    def resume(self) -> None:
        """The endpoint takes more."""
        self._client.resume()

    def stop(self) -> None:
        """The endpoint's connection is over."""
        self._writer = None

    def feed(self, data: bytes) -> None:
        """Bytes came from the client."""
        self.size += len(data)
        if self._writer is not None:
            self._writer.write(data)


class TunnelledRequest(RelayedRequest):
    """A request that offers WebSocket. An endpoint that declines gives an ordinary answer.

    The handshake is scheduled like any request without a prompt and counts in the ledger until the connection
    ends. No timeout runs on an established WebSocket; a client that takes nothing is cut like any other.
    """

    def __init__(self, around: Surroundings, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(around, scope, receive, send)
        self._client: WebSocketOffer = scope["extensions"][UPGRADE_EXTENSION]
        self._upload = self._upstream = _Upstream(self._client)
        self._frames = FrameTracker()
        self._open = False
        self._closing = False

    def shut_down(self) -> None:
        """Say 1001 to the client, between two frames of the endpoint, and end."""
        if not self._open:
            super().shut_down()
        elif self._frames.between_frames:
            self._go_away()
        else:
            self._closing = True

    def _go_away(self) -> None:
        self._client.send(GOING_AWAY)
        super().shut_down()

    async def _serve(self) -> None:
        self._watch_from_here()
        answer = await self._executions.answer(await self._read_handshake())
        if answer.head.status != _SWITCHING:
            await self._relay(answer)
            return
        await self._tunnel(answer)

    async def _read_handshake(self) -> UpstreamRequest:
        await self._prepare(None, model=_model_of(self._scope))
        return self._upstream_request(self._upstream, WebSocketOffer.headers)

    async def _tunnel(self, answer: Answer) -> None:
        start = self._begin_answer(answer)
        self._unbound()
        self._client.accept(start["headers"], self._upstream.feed)
        self._open = True
        while True:
            data = answer.take()
            if data:
                self._observe(data)
                await self._to_client(data)
            if answer.failure is not None:
                raise CutError(EndReason.UPSTREAM_ABORTED)
            if answer.ended:
                break
            await answer.news()
        self._client.close()

    async def _to_client(self, data: bytes) -> None:
        if self._closing:
            data = self._frames.rest_of_frame(data)
        else:
            self._frames.feed(data)
        self._client.send(data)
        if self._closing and self._frames.between_frames:
            self._go_away()
        self._sending_since = self._loop.time()
        await self._client.drained()
        self._sending_since = None


def _model_of(scope: Scope) -> str | None:
    """The model that `/v1/realtime?model=…` names."""
    if scope["path"] != _REALTIME:
        return None
    named = parse_qs(scope["query_string"].decode("latin-1")).get("model")
    return named[-1] if named else None
