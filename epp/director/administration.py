"""Administrative requests to engines: who is told, and what that does to what is known of an endpoint.

Read from vLLM 0.32: a sleep of level 1 or 2, a pause that clears caches and a release of the cache's memory
reset the prefix cache together with its connector; `/reset_prefix_cache` leaves the connector's tier unless
it is told otherwise.
"""

import enum
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

import msgspec

from epp.director.types import Target
from epp.endpoints.types import Endpoint, Pool
from epp.errors import EndpointNotFoundError, NoEndpointsError

__all__ = ["TARGET_HEADER", "EngineChange", "addressed", "change_by", "is_broadcast"]

TARGET_HEADER: Final = "x-epp-target"

# Every endpoint must be told, so that any of them can serve the adapter.
_ADAPTER_PATHS: Final = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})
_SHOWN: Final = 100  # characters of a target that an error repeats

_TRUE: Final = frozenset({"true", "1", "yes", "on", "t", "y"})  # what pydantic takes for true, lower-case


class EngineChange(enum.Enum):
    """What is no longer as it was."""

    NOTHING = enum.auto()
    GPU_TIER = enum.auto()  # what the GPU tier held is lost
    ALL_TIERS = enum.auto()  # what any tier held is lost
    MODELS = enum.auto()  # the endpoint serves other adapters


def is_broadcast(path: str, headers: Mapping[str, str]) -> bool:
    """All endpoints are told: none is named, or the path is that of an adapter."""
    return TARGET_HEADER not in headers or path in _ADAPTER_PATHS


def addressed(pool: Pool, path: str, headers: Mapping[str, str]) -> tuple[Target, ...]:
    """Who is told, whatever its state: all endpoints, or the one named by `x-epp-target`.

    Raises:
        EndpointNotFoundError: the one named is none of the pool's.
        NoEndpointsError: the pool has none.
    """
    if is_broadcast(path, headers):
        if not pool.endpoints:
            raise NoEndpointsError("no endpoint is known; check the endpoints and /readyz")
        return tuple(_target(endpoint) for endpoint in pool.endpoints)
    name = headers[TARGET_HEADER]
    endpoint = pool.by_address.get(name)
    if endpoint is None:
        raise EndpointNotFoundError(f"{TARGET_HEADER} names no endpoint of this pool: {name[:_SHOWN]!r}")
    return (_target(endpoint),)


def _target(endpoint: Endpoint) -> Target:
    spec = endpoint.spec
    return Target(endpoint.address, spec.scheme, spec.host, spec.port, endpoint.slot, fresh_connection=True)


class _Success(msgspec.Struct):
    success: bool = True


_decode_success = msgspec.json.Decoder(_Success).decode


def change_by(path: str, query: str, body: bytes | None) -> EngineChange:
    """What a request for `path?query` changed, `body` being that of its 2xx answer.

    None as `body`: no answer came, though the request may have reached the engine; then it is taken as done.
    """
    if path in _ADAPTER_PATHS:
        return EngineChange.MODELS
    arguments = {name: values[-1].lower() for name, values in parse_qs(query).items()}
    if path == "/reset_prefix_cache" and _succeeded(body):
        external = arguments.get("reset_external") in _TRUE
        return EngineChange.ALL_TIERS if external else EngineChange.GPU_TIER
    pauses = path == "/pause" and arguments.get("mode") != "keep"
    if (
        (path == "/sleep" and arguments.get("level") != "0")
        or (pauses and arguments.get("clear_cache", "true") in _TRUE)
        or path == "/release_kv_cache_memory"
    ):
        return EngineChange.ALL_TIERS
    return EngineChange.NOTHING


def _succeeded(body: bytes | None) -> bool:
    """False only where the engine says so: blocks were in use, and nothing was reset."""
    try:
        return not body or _decode_success(body).success
    except ValueError:
        return True
