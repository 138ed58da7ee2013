"""Liveness, readiness, and what vLLM's own probes ask for, answered for the pool."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from epp.api.ports import Ports

__all__ = ["router"]


def router(ports: Ports) -> APIRouter:
    """`/healthz`, `/readyz` and the pool's `/health`, `/ping`, `/version`, `/v1/models`."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process serves; says nothing about endpoints."""
        return {"status": "ok"}

    @routes.get("/readyz", responses={503: {"description": "not ready; `reasons` says why"}})
    async def readyz(request: Request) -> JSONResponse:
        """Requests should be sent here: an endpoint is ready and this router is not shutting down. Where
        clients need keys, `detail` is for callers who may see receipts.
        """
        state = ports.readiness()
        content: dict[str, Any] = {"ready": state.ready, "reasons": list(state.reasons)}
        if not ports.private or ports.access.allows(request.scope):
            content["detail"] = dict(state.detail)
        return JSONResponse(content, status_code=200 if state.ready else 503)

    async def pool_health() -> Response:
        """As vLLM answers: an empty 200, or 503 when no endpoint can serve."""
        return Response(status_code=200 if ports.readiness().ready else 503)

    for method, path in (("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")):
        routes.add_api_route(path, pool_health, methods=[method])

    @routes.get("/version")
    async def version() -> dict[str, str]:
        """This router's version."""
        return {"version": ports.version, "server": "epp"}

    @routes.get("/v1/models")
    async def models() -> Response:
        """Models and adapters of all endpoints, each once, as the endpoints list them."""
        state = ports.director.state
        return Response(state.catalog.models_json(state.table.pool), media_type="application/json")

    return routes
