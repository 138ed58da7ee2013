"""What an operator looks at when a decision surprises; guarded, since it tells what others asked."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from epp.api.ports import Ports
from epp.api.rendering import json_list, sliced
from epp.director.snapshot import state_slices
from epp.errors import ForbiddenError

__all__ = ["guard", "router"]

_DENIED = (
    "receipts and /debug need the admin key (x-epp-admin-key), the admin listener, or a caller on loopback"
)


def guard(ports: Ports) -> Any:
    """A dependency that lets only callers through who may see receipts."""

    def check(request: Request) -> None:
        if not ports.access.allows(request.scope):
            raise ForbiddenError(_DENIED)

    return Depends(check)


def router(ports: Ports) -> APIRouter:
    """`/debug/decisions`, `/debug/state`, `/debug/config`."""
    routes = APIRouter(prefix="/debug", tags=["debug"], dependencies=[guard(ports)])

    @routes.get("/decisions")
    async def decisions(limit: Annotated[int, Query(ge=1, le=10_000)] = 20) -> StreamingResponse:
        """The newest decisions with their receipts, newest first."""
        slices = json_list(ports.decisions.render(limit))
        return StreamingResponse(sliced(slices), media_type="application/json")

    @routes.get("/state")
    async def state(*, index: bool = True) -> StreamingResponse:
        """Endpoints, ledger, learned ratios and, unless `index=false`, the prefix index: what
        `epp explain --endpoints-state` reads.
        """
        slices = state_slices(ports.director.state, ports.clock.monotonic(), with_index=index)
        return StreamingResponse(sliced(slices), media_type="application/json")

    @routes.get("/config")
    async def configuration() -> dict[str, Any]:
        """The configuration in effect, with the origin of every value; secrets are never shown."""
        return dict(ports.configuration())

    return routes
