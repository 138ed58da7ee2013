"""The words between a front door and the director."""

import enum
from collections.abc import Mapping

import msgspec

__all__ = ["EndReason", "Failure", "FailureKind", "RequestHead", "Target"]


class RequestHead(msgspec.Struct, frozen=True):
    """What the director needs of a request's head. `path` has no query; header names are lower-case.

    `client` is the caller's address and `key_name` the name of its key, for logs; None where not known.
    """

    request_id: str
    method: str
    path: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    client: str | None = None
    key_name: str | None = None


class Target(msgspec.Struct, frozen=True):
    """Where to send the request. `fresh_connection`: do not reuse a pooled one."""

    address: str  # host:port, as in x-epp-endpoint
    scheme: str
    host: str
    port: int
    slot: int
    fresh_connection: bool = False


class FailureKind(enum.StrEnum):
    """How an execution failed before a byte went to the client."""

    CONNECT = "connect"  # refused, unreachable or timed out: nothing was written
    CLOSED_REUSED = "closed-reused"  # a pooled connection closed with no byte of an answer
    BROKEN = "broken"  # a fresh connection was reset or ended before a byte, or did not speak HTTP
    UNAVAILABLE = "unavailable"  # 503
    ENGINE_DOWN = "engine-down"  # 500 of a draining or dead engine
    FIRST_BYTE_TIMEOUT = "first-byte-timeout"


class Failure(msgspec.Struct, frozen=True):
    """One failed execution. `written`: a byte of the request may have reached the endpoint."""

    kind: FailureKind
    detail: str = ""
    written: bool = True


class EndReason(enum.StrEnum):
    """Why a request's life ended; each ends exactly once."""

    COMPLETE = "complete"
    UPSTREAM_ABORTED = "upstream_aborted"  # the endpoint broke off after the head
    CLIENT_DISCONNECTED = "client_disconnected"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    UNOBSERVED = "unobserved"  # a gateway sent it, and does not show the rest of the answer
    REJECTED = "rejected"  # answered by the router itself
