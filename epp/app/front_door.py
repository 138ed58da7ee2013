"""Which application serves a path: the control surface, the relay, or nobody."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from epp.api.access import ADMIN_LISTENER
from epp.errors import EppError, ForbiddenError, NoEndpointsError
from epp.http import new_request_id
from epp.proxy.errors import render_error
from epp.proxy.heads import request_id_of
from epp.security import KeyGate

__all__ = ["ENGINE_ADMIN_PATHS", "FrontDoor", "Lifespan", "admin_door"]

Lifespan = Callable[[Receive, Send], Awaitable[None]]

# Answered for the pool on every listener: load balancers and clients ask for them where they send requests.
_POOL_PATHS: Final = frozenset({"/healthz", "/readyz", "/health", "/ping", "/version", "/v1/models"})
_CONTROL_PATHS: Final = frozenset(
    {"/metrics", "/pick", "/docs", "/docs/oauth2-redirect", "/openapi.json", "/redoc"}
)
_CONTROL_PREFIX: Final = "/debug/"

# They change or stop the engine, or tell its configuration: nobody's clients should reach them by accident.
ENGINE_ADMIN_PATHS: Final = frozenset(
    {
        "/abort_requests",
        "/collective_rpc",
        "/inference/v1/abort_requests",
        "/init_weight_transfer_engine",
        "/is_paused",
        "/is_scaling_elastic_ep",
        "/is_sleeping",
        "/pause",
        "/release_kv_cache_memory",
        "/reset_encoder_cache",
        "/reset_mm_cache",
        "/reset_prefix_cache",
        "/resume",
        "/scale_elastic_ep",
        "/server_info",
        "/sleep",
        "/start_profile",
        "/stop_profile",
        "/update_weights",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/wake_up",
    }
)
_ENGINE_ADMIN_PREFIX: Final = "/fault_tolerance/"


class FrontDoor:
    """Dispatches by path; knows no request's content."""

    def __init__(
        self, *, control_here: bool, allow_engine_admin: bool, lifespan: Lifespan | None = None
    ) -> None:
        """`control_here` is False when the control surface has a listener of its own."""
        self._control_here = control_here
        self._allow_engine_admin = allow_engine_admin
        self._lifespan = lifespan
        self._relay: ASGIApp = _not_started
        self._control: ASGIApp = _not_started
        self._gate: KeyGate | None = None
        self._keyed_paths: frozenset[str] = frozenset()

    def attach(
        self,
        relay: ASGIApp,
        control: ASGIApp,
        *,
        gate: KeyGate | None = None,
        keyed_paths: frozenset[str] = frozenset(),
    ) -> None:
        """Say who serves; before that every request is answered with 503.

        `gate` guards the `keyed_paths` of `control`; the relay has a guard of its own.
        """
        self._relay = relay
        self._control = control
        self._gate = gate
        self._keyed_paths = keyed_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI server."""
        if scope["type"] == "lifespan":
            await (self._lifespan or _no_lifespan)(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "websockets are not relayed"})
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path in _POOL_PATHS or (_is_control(path) and self._control_here):
            await self._serve_control(path, scope, receive, send)
        elif _is_control(path):
            await _refuse(scope, send, ForbiddenError("this route is served on the admin port"))
        elif _is_engine_admin(path) and not self._allow_engine_admin:
            await _refuse(
                scope,
                send,
                ForbiddenError("engine administration is closed here; --allow-engine-admin opens it"),
            )
        else:
            await self._relay(scope, receive, send)

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


def _is_control(path: str) -> bool:
    return path in _CONTROL_PATHS or path.startswith(_CONTROL_PREFIX)


def _is_engine_admin(path: str) -> bool:
    return path in ENGINE_ADMIN_PATHS or path.startswith(_ENGINE_ADMIN_PREFIX)


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
