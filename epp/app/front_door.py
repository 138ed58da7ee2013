"""Which application serves a path: the control surface, the relay, or nobody."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from epp.api.access import ADMIN_LISTENER
from epp.app.cors import CrossOrigin
from epp.app.lanes import Lane, lane_of
from epp.config.path_rules import PathRule, is_open
from epp.config.web_origin import WebOrigin
from epp.errors import EppError, ForbiddenError, NoEndpointsError
from epp.http import new_request_id
from epp.proxy.errors import render_error
from epp.proxy.heads import request_id_of
from epp.security import KeyGate

__all__ = ["FrontDoor", "Lifespan", "admin_door"]

_FOR_PAGES: Final = frozenset({Lane.POOL, Lane.RELAY})

Lifespan = Callable[[Receive, Send], Awaitable[None]]


class FrontDoor:
    """Dispatches by path; knows no request's content."""

    def __init__(
        self,
        *,
        control_here: bool,
        allow_engine_admin: bool,
        path_rules: Sequence[PathRule] = (),
        lifespan: Lifespan | None = None,
        allowed_origins: Sequence[WebOrigin] = (),
    ) -> None:
        """`control_here` is False when the control surface has a listener of its own; pages of
        `allowed_origins` may read what is answered for the pool and by endpoints.
        """
        self._control_here = control_here
        self._allow_engine_admin = allow_engine_admin
        self._path_rules = path_rules
        self._lifespan = lifespan
        self._cross_origin = CrossOrigin(allowed_origins) if allowed_origins else None
        self._relay: ASGIApp = _not_started
        self._control: ASGIApp = _not_started
        self._engine_admin: ASGIApp = _not_started
        self._gate: KeyGate | None = None
        self._keyed_paths: frozenset[str] = frozenset()

    def attach(
        self,
        relay: ASGIApp,
        control: ASGIApp,
        engine_admin: ASGIApp,
        *,
        gate: KeyGate | None = None,
        keyed_paths: frozenset[str] = frozenset(),
    ) -> None:
        """Say who serves; before that every request is answered with 503.

        `gate` guards the `keyed_paths` of `control`; the others have guards of their own.
        """
        self._relay = relay
        self._control = control
        self._engine_admin = engine_admin
        self._gate = gate
        self._keyed_paths = keyed_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI server."""
        if scope["type"] == "lifespan":
            await (self._lifespan or _no_lifespan)(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "websockets are not relayed"})
        elif self._cross_origin is not None and lane_of(scope["path"]) in _FOR_PAGES:
            await self._cross_origin.serve(self._serve, scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        lane = lane_of(path)
        closed = self._closed(lane, path)
        if closed:
            await _refuse(scope, send, ForbiddenError(closed))
        elif lane is Lane.RELAY:
            await self._relay(scope, receive, send)
        elif lane is Lane.ENGINE_ADMIN:
            await self._engine_admin(scope, receive, send)
        else:
            await self._serve_control(path, scope, receive, send)

    def relays(self, path: str) -> bool:
        """A request for this decoded path goes to the relay."""
        lane = lane_of(path)
        return lane is Lane.RELAY and not self._closed(lane, path)

    def _closed(self, lane: Lane, path: str) -> str:
        """Why the path is not served here, "" when it is."""
        if lane is Lane.POOL:
            return ""
        if lane is Lane.CONTROL:
            return "" if self._control_here else "this route is served on the admin port"
        if lane is Lane.ENGINE_ADMIN and not self._allow_engine_admin:
            return "engine administration is closed here; --allow-engine-admin opens it"
        return "" if is_open(self._path_rules, path) else "this route is closed here"

    async def _serve_control(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._gate is not None and path in self._keyed_paths:
            admission = self._gate.admit(scope["method"], scope["headers"])
            if admission.error is not None:
                await _refuse(scope, send, admission.error)
                return
        await self._control(scope, receive, send)


async def _refuse(scope: Scope, send: Send, error: EppError) -> None:
    answer = render_error(error, request_id_of(scope["headers"], new_request_id))
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _not_started(scope: Scope, _receive: Receive, send: Send) -> None:
    await _refuse(scope, send, NoEndpointsError("the router is starting"))


async def _no_lifespan(receive: Receive, send: Send) -> None:
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


def admin_door(control: ASGIApp) -> ASGIApp:
    """The control surface on its own listener: whoever reaches it may see everything."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        state: dict[str, Any] = {**scope.get("state", {}), ADMIN_LISTENER: True}
        await control({**scope, "state": state}, receive, send)

    return serve
