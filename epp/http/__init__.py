"""Our HTTP/1.1 client for the request path, and the header rules of the proxy.

`UpstreamPool.send` starts an exchange and returns at once; the response arrives through the callbacks of a
`ResponseSink`, without a task or a queue. `fetch` wraps that for callers that want one awaitable result.
"""

from epp.http.fetch import FetchError, Response, fetch
from epp.http.headers import Credentials, find_request_id, new_request_id, request_headers, response_headers
from epp.http.pool import PoolStats, UpstreamPool
from epp.http.tls import EndpointTls, ListenerTls, TlsFileError, endpoint_context, listener_context
from epp.http.types import (
    ErrorKind,
    Headers,
    Origin,
    ResponseHead,
    ResponseSink,
    UpstreamExchange,
    UpstreamFailure,
    UpstreamRequest,
    UpstreamSettings,
)

__all__ = [
    "Credentials",
    "EndpointTls",
    "ErrorKind",
    "FetchError",
    "Headers",
    "ListenerTls",
    "Origin",
    "PoolStats",
    "Response",
    "ResponseHead",
    "ResponseSink",
    "TlsFileError",
    "UpstreamExchange",
    "UpstreamFailure",
    "UpstreamPool",
    "UpstreamRequest",
    "UpstreamSettings",
    "endpoint_context",
    "fetch",
    "find_request_id",
    "listener_context",
    "new_request_id",
    "request_headers",
    "response_headers",
]
