"""The ASGI application: finds the route and answers what routes refuse."""

import uuid
from collections.abc import Awaitable, Callable

from epp.simserver.control import ControlRoutes
from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError
from epp.simserver.exchange import Exchange, Receive, Scope, Send
from epp.simserver.inference import InferenceRoutes

__all__ = ["SimApp"]

Handler = Callable[[Exchange], Awaitable[None]]


class SimApp:
    """Routes of one server."""

    def __init__(self, core: SimCore) -> None:
        self._settings = core.settings
        self._routes = _routes(core)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        exchange = Exchange(scope, receive, send)
        if self._settings.request_id_headers:
            request_id = exchange.header(b"x-request-id") or uuid.uuid4().hex
            exchange.echo_headers.append((b"x-request-id", request_id.encode("latin-1")))
        methods = self._routes.get(exchange.path)
        if methods is None:
            await exchange.answer_json(404, {"detail": "Not Found"})
        elif exchange.method not in methods:
            await exchange.answer_json(405, {"detail": "Method Not Allowed"})
        else:
            await _serve(exchange, methods[exchange.method])


async def _serve(exchange: Exchange, handler: Handler) -> None:
    try:
        await handler(exchange)
    except ApiError as error:
        await exchange.answer(error.status, error.body)
    except ConnectionError:
        return


def _routes(core: SimCore) -> dict[str, dict[str, Handler]]:
    """Handlers by path and method."""
    inference = InferenceRoutes(core)
    control = ControlRoutes(core)
    routes: dict[str, dict[str, Handler]] = {
        "/v1/chat/completions": {"POST": inference.chat},
        "/v1/completions": {"POST": inference.completion},
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
    if core.settings.dev_mode:
        routes |= {
            "/reset_prefix_cache": {"POST": control.reset_prefix_cache},
            "/sleep": {"POST": control.sleep},
            "/wake_up": {"POST": control.wake_up},
            "/is_sleeping": {"GET": control.is_sleeping},
        }
    return routes
