"""Limits and timeouts of the HTTP front door."""

from dataclasses import dataclass

__all__ = ["ProxySettings"]


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """What the front door allows a client, and how long it waits; timeouts of upstreams belong to the pool.

    Attributes:
        max_head_bytes: request line and headers; more is 431.
        max_headers: header fields of one request, trailers included; more is 431.
        max_request_bytes: body of one request; more is 413.
        max_buffered_bytes: bodies of all requests that may still be sent (again) to an endpoint; more is 503.
        max_requests: relayed requests at a time; more is 503, 0 is no limit.
        head_timeout_s: from the first byte of a request to the end of its head; later is 408.
        body_timeout_s: from the end of the head to the end of the body; later is 408.
        total_timeout_s: from the end of the head to the end of the answer; 0 is no limit.
        client_stall_timeout_s: how long a client may take nothing of an answer that waits for it.
        keep_alive_s: how long a client's connection may be idle. Longer than any gateway's idle time, so that
            the gateway is the one who closes; otherwise its next request may meet a closing socket.
        linger_timeout_s: how long the input of a closing connection is thrown away, so that a client that is
            still sending can read why it should not.
        drain_timeout_s: from the begin of a drain to the end of serving at the latest.
        expose_endpoint: send `x-epp-endpoint`.
        stream_error_event: before the connection of a stream that died is cut, send one `event: error`.
    """

    max_head_bytes: int = 65_536
    max_headers: int = 200
    max_request_bytes: int = 64 * 1024 * 1024
    max_buffered_bytes: int = 1024 * 1024 * 1024
    max_requests: int = 0
    head_timeout_s: float = 10.0
    body_timeout_s: float = 120.0
    total_timeout_s: float = 0.0
    client_stall_timeout_s: float = 300.0
    keep_alive_s: float = 650.0
    linger_timeout_s: float = 5.0
    drain_timeout_s: float = 30.0
    expose_endpoint: bool = True
    stream_error_event: bool = False
