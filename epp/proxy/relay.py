"""The plain ASGI relay: an application for every path that goes to an endpoint."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from epp.clock import Clock, SystemClock
from epp.director import Director, Exchange
from epp.errors import EppError, OverloadedError, ShuttingDownError
from epp.http import Credentials, UpstreamPool
from epp.http.headers import new_request_id
from epp.http.patience import PatientTimer
from epp.proxy.asgi import Receive, Scope, Send
from epp.proxy.intake import BodyBudget
from epp.proxy.relayed import RelayedRequest
from epp.proxy.settings import ProxySettings
from epp.proxy.surroundings import Surroundings
from epp.proxy.tunnel import TunnelledRequest
from epp.proxy.upgrade import UPGRADE_EXTENSION
from epp.security import KeyGate, TrustedProxies

__all__ = ["Relay", "Served"]


class Served(Protocol):
    """A request in flight, in whichever lane."""

    def shut_down(self) -> None:
        """End it now: with an error if nothing was sent, else by cutting the answer."""
        ...

    def cut_if_stalled(self, since: float) -> None:
        """End it if the client has taken nothing of its answer `since` then (time of the loop)."""
        ...


def _no_receipt(_exchange: Exchange, _scope: Scope) -> str | None:
    """Nobody may see receipts."""
    return None


class Relay:
    """Relays each request to the endpoint that the director picks; see `RelayedRequest`.

    Attributes:
        around: what its requests share.
    """

    def __init__(
        self,
        director: Director,
        pool: UpstreamPool,
        settings: ProxySettings,
        *,
        clock: Clock | None = None,
        new_request_id: Callable[[], bytes] = new_request_id,
        explain: Callable[[Exchange, Scope], str | None] = _no_receipt,
        gate: KeyGate | None = None,
        proxies: TrustedProxies | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """`explain` renders the value of `x-epp-decision`, or None for a client that may not see it."""
        self.around = Surroundings(
            director=director,
            pool=pool,
            settings=settings,
            now=(clock or SystemClock()).monotonic,
            new_request_id=new_request_id,
            explain=explain,
            budget=BodyBudget(settings.max_buffered_bytes),
            gate=gate,
            proxies=proxies,
            credentials=credentials,
        )
        self._active: set[Served] = set()
        self._closed = False
        self._sweeper: PatientTimer | None = None

    @property
    def in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._active)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of request bodies held."""
        return self.around.budget.held_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        kind = TunnelledRequest if UPGRADE_EXTENSION in scope.get("extensions", {}) else RelayedRequest
        request = kind(self.around, scope, receive, send)
        try:
            await request.run(self.begin(request))
        finally:
            self.end(request)

    def begin(self, request: Served) -> EppError | None:
        """Watch over `request` until `end`; returns why it is not to be served."""
        self._active.add(request)
        if self._sweeper is None:
            self._sweep_later()
        return self._refusal()

    def end(self, request: Served) -> None:
        """The request is over."""
        self._active.discard(request)

    def _refusal(self) -> EppError | None:
        """Why a request that has just come is not served."""
        if self._closed:
            return ShuttingDownError("the router is shutting down")
        limit = self.around.settings.max_requests
        if limit and len(self._active) > limit:
            return OverloadedError(f"{limit} requests are in flight, more are not taken; try again")
        return None

    def _sweep_later(self) -> None:
        interval_s = self.around.settings.client_stall_timeout_s / 4
        self._sweeper = PatientTimer(asyncio.get_running_loop(), interval_s, self._sweep)

    def _sweep(self) -> None:
        """Cut the answers of clients that have stopped reading; one timer for all, none for each piece."""
        self._sweeper = None
        since = asyncio.get_running_loop().time() - self.around.settings.client_stall_timeout_s
        for request in list(self._active):
            request.cut_if_stalled(since)
        if self._active:
            self._sweep_later()

    def shut_down(self) -> None:
        """Answer or cut what is in flight, and refuse what comes."""
        self._closed = True
        for request in list(self._active):
            request.shut_down()
