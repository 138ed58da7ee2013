"""Every failure that epp itself reports, in one tree, with its HTTP answer.

    EppError
    ├── ClientError                 the request cannot be served as it is
    │   ├── BadRequestError          400
    │   ├── UnauthorizedError        401
    │   ├── ForbiddenError           403
    │   ├── ModelNotFoundError       404
    │   ├── RouteNotFoundError       404
    │   ├── MethodNotAllowedError    405
    │   ├── RequestTimeoutError      408
    │   ├── PayloadTooLargeError     413
    │   ├── UnsupportedEncodingError 415
    │   └── HeadTooLargeError        431
    ├── InternalError               500  our own fault
    ├── SaturatedError              429  ready endpoints exist, none can take it
    ├── UpstreamError
    │   ├── UpstreamConnectError     502
    │   ├── UpstreamProtocolError    502
    │   └── FirstByteTimeoutError    504
    ├── UnavailableError
    │   ├── NoEndpointsError         503  none is ready
    │   ├── OverloadedError          503  this router is at its limit
    │   └── ShuttingDownError        503
    └── ClientDisconnectedError     499  in metrics only, never on the wire
    ConfigError                     exit 2, never on the wire

An upstream's own error is not in this tree: it passes unchanged.
"""

from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "BadRequestError", "ClientDisconnectedError", "ClientError", "ConfigError", "ConfigProblem",
    "EppError", "FirstByteTimeoutError", "ForbiddenError", "HeadTooLargeError", "InternalError",
    "MethodNotAllowedError", "ModelNotFoundError", "NoEndpointsError", "OverloadedError",
    "PayloadTooLargeError", "RequestTimeoutError", "RouteNotFoundError", "SaturatedError",
    "ShuttingDownError", "UnauthorizedError", "UnavailableError", "UnsupportedEncodingError",
    "UpstreamConnectError", "UpstreamError", "UpstreamProtocolError",
]  # fmt: skip


class EppError(Exception):
    """A failure with a status, an OpenAI error type and code, and a machine-readable reason.

    `status` is the HTTP status; `type` and `code` stand in the JSON body (OpenAI's shape); `reason` goes
    into `x-llm-d-request-dropped-reason`, None sends no such header; `retry_after_s` goes into `Retry-After`;
    `challenge` goes into `WWW-Authenticate`.
    `message` is for the client and never holds prompts, bodies or credentials. `param` names the field.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "internal_error"
    code: ClassVar[str] = "internal_error"
    reason: ClassVar[str | None] = None
    retry_after_s: ClassVar[int | None] = None
    challenge: ClassVar[str | None] = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class ClientError(EppError):
    """The request cannot be served as it is."""

    status = 400
    type = "invalid_request_error"
    code = "bad_request"


class BadRequestError(ClientError):
    """The head or the body is malformed."""


class UnauthorizedError(ClientError):
    """The API key is missing or wrong."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"
    challenge = 'Bearer realm="epp"'


class ForbiddenError(ClientError):
    """The route is closed."""

    status = 403
    type = "permission_error"
    code = "route_closed"


class ModelNotFoundError(ClientError):
    """No endpoint of the pool serves the model, and the pool knows its models."""

    status = 404
    code = "model_not_found"


class RouteNotFoundError(ClientError):
    """The control surface has no such route."""

    status = 404
    code = "route_not_found"


class MethodNotAllowedError(ClientError):
    """The control surface has the route for another method."""

    status = 405
    code = "method_not_allowed"


class RequestTimeoutError(ClientError):
    """Head or body did not arrive in time."""

    status = 408
    code = "request_timeout"


class PayloadTooLargeError(ClientError):
    """The body, or what it inflates to, is over the limit."""

    status = 413
    code = "payload_too_large"


class UnsupportedEncodingError(ClientError):
    """The content coding cannot be read for routing."""

    status = 415
    code = "unsupported_content_encoding"


class HeadTooLargeError(ClientError):
    """Request line and headers are over the limit in size or count."""

    status = 431
    code = "head_too_large"


class InternalError(EppError):
    """Our own fault."""


class SaturatedError(EppError):
    """Ready endpoints exist, but none can take the request."""

    status = 429
    type = "rate_limit_error"
    code = "saturated"
    reason = "rejected-saturated"
    retry_after_s = 1


class UpstreamError(EppError):
    """The endpoint failed before a byte of its answer came."""

    status = 502
    type = "upstream_error"
    code = "upstream_error"


class UpstreamConnectError(UpstreamError):
    """No connection to any endpoint that was tried."""

    code = "upstream_connect_failed"
    reason = "upstream-connect-failed"


class UpstreamProtocolError(UpstreamError):
    """The endpoint closed early or did not speak HTTP."""

    code = "upstream_protocol_error"
    reason = "upstream-protocol-error"


class FirstByteTimeoutError(UpstreamError):
    """The endpoint took the request and did not answer in time; it is never sent again."""

    status = 504
    code = "upstream_timeout"
    reason = "upstream-timeout"


class UnavailableError(EppError):
    """Nobody here can serve the request at this time."""

    status = 503
    type = "service_unavailable_error"
    code = "unavailable"
    retry_after_s = 1


class NoEndpointsError(UnavailableError):
    """No endpoint is ready."""

    code = "no_endpoints"
    reason = "rejected-no-endpoints"


class OverloadedError(UnavailableError):
    """This router is at one of its own limits."""

    code = "router_overloaded"
    reason = "rejected-router-overloaded"


class ShuttingDownError(UnavailableError):
    """This router is draining and will not finish the request."""

    code = "shutting_down"
    reason = "rejected-shutting-down"


class ClientDisconnectedError(EppError):
    """The client left; counted, never sent."""

    status = 499
    code = "client_disconnected"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One fault of a configuration: where, what stands there, and what to write instead."""

    path: str
    message: str
    remedy: str = ""
    line: int | None = None

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line is not None else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.path}{line}: {self.message}{remedy}"


class ConfigError(Exception):
    """A configuration that cannot be used; holds every problem found, not only the first."""

    def __init__(self, problems: list[ConfigProblem], source: str = "") -> None:
        self.problems = problems
        self.source = source
        lines = [str(problem) for problem in problems]
        super().__init__("\n".join([f"{source}: configuration is invalid", *lines] if source else lines))
