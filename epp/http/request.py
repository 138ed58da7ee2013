"""Writes the head of a request."""

from epp.http.types import UpstreamRequest

__all__ = ["encode_head"]

_BODILESS_METHODS = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE"))


def encode_head(request: UpstreamRequest, authority: bytes) -> bytes:
    """Request line, `host`, the request's headers, and what frames the body where method or body need it.

    No `connection` header: in HTTP/1.1 a connection persists unless somebody says otherwise.

    Raises:
        ValueError: method, target or a header would break the framing.
    """
    lines = [b"%b %b HTTP/1.1\r\nhost: %b" % (request.method, request.target, authority)]
    lines += [b"%b: %b" % header for header in request.headers]
    body = request.body
    length = len(body) if isinstance(body, (bytes, bytearray)) else body.length
    if request.upgrade:
        length = 0
    if length is None:
        lines.append(b"transfer-encoding: chunked")
    elif length or request.method not in _BODILESS_METHODS:
        lines.append(b"content-length: %d" % length)
    lines.append(b"\r\n")
    head = b"\r\n".join(lines)
    line_ends = len(lines) + 1
    if head.count(b"\n") != line_ends or head.count(b"\r") != line_ends or b" " in request.target:
        raise ValueError("a request target or header holds a line break or the target a space")
    return head
