"""Writes the head of a request."""

from epp.http.types import UpstreamRequest

__all__ = ["encode_head"]

_header_line = b"%b: %b\r\n".__mod__
_BODILESS_METHODS = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE"))


def encode_head(request: UpstreamRequest, authority: bytes) -> bytes:
    """Request line, `host`, the request's headers, and what frames the body where method or body need it.

    No `connection` header: in HTTP/1.1 a connection persists unless somebody says otherwise.

    Raises:
        ValueError: method, target or a header would break the framing.
    """
    method, target, headers, body = request.method, request.target, request.headers, request.body
    if request.upgrade:
        length: int | None = 0
    else:
        length = len(body) if isinstance(body, (bytes, bytearray)) else body.length
    if length is None:
        framing, line_ends = b"transfer-encoding: chunked\r\n", len(headers) + 4
    elif length or method not in _BODILESS_METHODS:
        framing, line_ends = b"content-length: %d\r\n" % length, len(headers) + 4
    else:
        framing, line_ends = b"", len(headers) + 3
    lines = b"".join(map(_header_line, headers))
    head = b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b\r\n" % (method, target, authority, lines, framing)
    if head.count(b"\n") != line_ends or head.count(b"\r") != line_ends or b" " in target:
        raise ValueError("a request target or header holds a line break or the target a space")
    return head
