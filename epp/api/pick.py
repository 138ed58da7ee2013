"""`POST /pick`: the decision without the proxying."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from epp.api.ports import Ports
from epp.api.rendering import json_response
from epp.director.pick import pick_steps
from epp.director.types import RequestHead
from epp.errors import PayloadTooLargeError

__all__ = ["router"]


async def _body(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise PayloadTooLargeError(f"the body is larger than maxRequestBytes ({limit})")
        parts.append(part)
    return b"".join(parts)


def router(ports: Ports) -> APIRouter:
    """The one route."""
    routes = APIRouter(tags=["pick"])

    @routes.post("/pick")
    async def pick(
        request: Request,
        commit: Annotated[bool, Query(description="note the pick in the prefix index")] = False,
        x_epp_path: Annotated[str, Header(description="path of the request")] = "/v1/chat/completions",
    ) -> Response:
        """Where the request in the body should go. Nothing is sent and the ledger is not touched; `commit=1`
        notes it in the prefix index. `model` is there if a rule rewrites the request's, and is to be sent in
        its place. The receipt is for callers who may see receipts.
        """
        body = await _body(request, ports.max_request_bytes)
        head = RequestHead("", "POST", x_epp_path.partition("?")[0], dict(request.headers))
        steps = pick_steps(ports.director, head, body, ports.clock.monotonic(), commit=commit)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                answer = done.value
                break
            await asyncio.sleep(0)
        content: dict[str, Any] = {"endpoints": list(answer.endpoints)}
        if answer.model is not None:
            content["model"] = answer.model
        if ports.access.allows(request.scope):
            content["receipt"] = answer.receipt
        return json_response(content)

    return routes
