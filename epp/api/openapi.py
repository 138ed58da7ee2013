"""The OpenAPI page: control routes as FastAPI knows them, and the routes that are relayed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

__all__ = ["RelayedRoute", "describe"]


@dataclass(frozen=True, slots=True)
class RelayedRoute:
    """A route that goes to an endpoint."""

    method: str
    path: str
    summary: str


def describe(app: FastAPI, relayed: Sequence[RelayedRoute]) -> dict[str, Any]:
    """The page, made once and kept by the application."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for route in relayed:
            schema["paths"].setdefault(route.path, {})[route.method.lower()] = _operation(route)
        app.openapi_schema = schema
    return app.openapi_schema


def _operation(route: RelayedRoute) -> dict[str, Any]:
    return {
        "tags": ["relayed"],
        "summary": route.summary,
        "description": "Relayed to the picked endpoint unchanged; the schema is vLLM's own.",
        "responses": {"200": {"description": "the endpoint's answer"}},
    }
