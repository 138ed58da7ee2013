"""A client's connection with a fast lane: inference requests pass it by without ASGI."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from uvicorn.config import Config

from epp.http import Headers
from epp.proxy.fast_request import FastRequest, FastTurns, begin_request
from epp.proxy.front_state import FrontState
from epp.proxy.protocol import HttpProtocol, Phase
from epp.proxy.relay import Relay
from epp.request import Api, api_of

__all__ = ["FastLane", "FastProtocol"]

_KNOWN_PATHS = 1024


class FastLane:
    """What the connections of a listener need to relay without ASGI.

    Attributes:
        relay: what both lanes share.
        turns: steps that its requests take together.
        takes: whether a decoded path is one of inference that is relayed.
        apart: header of requests that go through ASGI.
    """

    def __init__(self, relay: Relay, relays: Callable[[str], bool], apart: bytes | None = None) -> None:
        """`relays`: a POST to this decoded path goes to an endpoint; not if it has the header `apart`."""
        self.relay = relay
        self.apart = apart
        self.turns = FastTurns()
        self.takes = lru_cache(_KNOWN_PATHS)(lambda path: api_of(path) is not Api.OTHER and relays(path))

    def finish(self) -> None:
        """Tell the director at once of requests that have ended: the loop may not turn again."""
        self.turns.ending.flush()


class FastProtocol(HttpProtocol):
    """One connection. What the fast lane does not take goes through ASGI.

    That is everything but a POST of inference with HTTP/1.1, and what is pipelined behind another request.
    """

    def __init__(
        self,
        config: Config,
        server_state: FrontState,
        app_state: dict[str, Any],
        lane: FastLane,
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._lane = lane
        self._fast: FastRequest | None = None  # the request whose head came last, if it is in the fast lane

    @property
    def default_headers(self) -> Headers:
        """`server` and `date` of an answer that begins now."""
        return self.server_state.default_headers

    @property
    def write_paused(self) -> bool:
        """The client does not take what was written."""
        return self.flow.write_paused

    def start_request(self, version: str) -> None:
        """Serve the request whose head is complete in the lane that takes it."""
        if not self._takes(version):
            self._fast = None
            super().start_request(version)
            return
        lane = self._lane
        keep_alive = self.parser.should_keep_alive() and not self.server_state.draining
        request = begin_request(lane.relay, lane.turns, self, self.scope, keep_alive=keep_alive)  # type: ignore[arg-type]
        self._fast = self.cycle = self._serving = request  # type: ignore[assignment]

    def _takes(self, version: str) -> bool:
        scope = self.scope
        if scope["method"] != "POST" or version != "1.1" or self.expect_100_continue or self._offered:
            return False
        lane = self._lane
        if lane.apart is not None and any(name == lane.apart for name, _ in scope["headers"]):
            return False
        return lane.takes(scope["path"]) and not self.in_service() and not self.transport.is_closing()

    def on_body(self, body: bytes) -> None:
        """Parser callback: a piece of a body."""
        fast = self._fast
        if fast is None:
            super().on_body(body)
        else:
            fast.on_body(body)

    def on_message_complete(self) -> None:
        """Parser callback: the request is wholly here."""
        fast = self._fast
        if fast is None or self.parser.should_upgrade():
            super().on_message_complete()
            return
        self._phase = Phase.IDLE
        self._unseen_bytes = 0
        fast.on_body_end()

    def body_limit_s(self) -> float:
        """How long a body may take."""
        return super().body_limit_s() if self._fast is None else self._settings.body_timeout_s

    def _on_receive_timeout(self) -> None:
        fast = self._fast
        if fast is None or self._phase is not Phase.BODY:
            super()._on_receive_timeout()
        else:
            fast.on_body_timeout()

    def pause_writing(self) -> None:
        """The client does not take what was written."""
        super().pause_writing()
        serving: object = self._serving
        if isinstance(serving, FastRequest):
            serving.pause_writing()

    def resume_writing(self) -> None:
        """The client takes more."""
        super().resume_writing()
        serving: object = self._serving
        if isinstance(serving, FastRequest):
            serving.resume_writing()

    def on_response_complete(self) -> None:
        """An answer was written: forget its request, and go on with what was held back."""
        serving: object = self._serving
        if self._phase is Phase.IDLE and isinstance(serving, FastRequest):
            if self._fast is serving:
                self._fast = self.cycle = None  # type: ignore[assignment]
            self._serving = None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left, or the connection was closed."""
        if self._fast is not None:
            self._fast = self.cycle = None  # type: ignore[assignment]  # there is no application for uvicorn to wake
        super().connection_lost(exc)
