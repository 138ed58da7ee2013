"""The control surface as one FastAPI application."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from epp.api import debug, health, pick
from epp.api.openapi import RelayedRoute, describe
from epp.api.ports import Ports
from epp.api.rendering import sliced
from epp.errors import BadRequestError, EppError, InternalError, MethodNotAllowedError, RouteNotFoundError
from epp.http import find_request_id, new_request_id
from epp.http.errors import error_response

__all__ = ["create_control_app"]


def create_control_app(ports: Ports, relayed: Sequence[RelayedRoute] = ()) -> FastAPI:
    """All control routes; `relayed` are listed in the OpenAPI page and served elsewhere."""
    app = FastAPI(title="epp", version=ports.version, summary="Cache-aware router for vLLM fleets")
    app.include_router(health.router(ports))
    app.include_router(debug.router(ports))
    app.include_router(pick.router(ports))

    @app.get("/metrics", tags=["metrics"])
    async def metrics(request: Request) -> StreamingResponse:
        """Prometheus text; see docs/metrics.md."""
        if ports.admit_metrics is not None:
            await ports.admit_metrics(request.headers.raw)
        return StreamingResponse(sliced(ports.metrics()), media_type=ports.metrics_content_type)

    app.exception_handler(EppError)(_render)
    app.exception_handler(RequestValidationError)(_validation_error)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(Exception)(_own_fault)
    app.openapi = lambda: describe(app, relayed)  # type: ignore[method-assign]
    app.add_middleware(_HeadAsGet)
    return app


class _HeadAsGet:
    """Answers HEAD with the head of what GET gets: probes ask so. The ASGI server leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope
        await self._app(asked, receive, send)


async def _render(request: Request, error: EppError) -> Response:
    status, headers, body = error_response(error)
    headers.append((b"x-request-id", find_request_id(request.headers.raw) or new_request_id()))
    return Response(body, status_code=status, headers={k.decode(): v.decode() for k, v in headers})


async def _validation_error(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return await _render(request, BadRequestError(f"{where}: {first['msg']}", param=where))


async def _http_error(request: Request, error: HTTPException) -> Response:
    kind = {404: RouteNotFoundError, 405: MethodNotAllowedError}.get(error.status_code, BadRequestError)
    answer = await _render(request, kind(str(error.detail)))
    answer.headers.update(error.headers or {})  # a 405 has to name the methods that are there
    return answer


async def _own_fault(request: Request, _error: Exception) -> Response:
    # The framework raises the error again after this answer, so that the server logs it.
    return await _render(request, InternalError("internal error"))
