"""What a request head must satisfy beyond the parser's own checks (RFC 9112; request smuggling).

The parser already refuses: both content-length and transfer-encoding, a repeated, listed or malformed
content-length, folded header lines, white space before a colon, bare line feeds, control characters, and bad
chunk sizes. What it lets through, and a server behind us may read differently, is refused here.
"""

from typing import Final

from epp.errors import BadRequestError

__all__ = ["check_head", "without_upgrade"]

# A name, an address, a port (RFC 3986, section 3.2.2); no list, no user, no path.
_IN_A_HOST: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~%!$&'()*+;=:[]"
_VERSIONS: Final = frozenset({"1.0", "1.1"})


def check_head(method: bytes, url: bytes, version: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse a head that two servers could understand differently. Header names are lower-case.

    Raises:
        BadRequestError: with what is wrong.
    """
    if version not in _VERSIONS:
        raise BadRequestError("only HTTP/1.1 and HTTP/1.0 are spoken here")
    if method == b"CONNECT":
        raise BadRequestError("CONNECT is not supported")
    if not url.startswith((b"/", b"http://", b"https://")) and (url != b"*" or method != b"OPTIONS"):
        raise BadRequestError("the request target is neither a path nor an absolute URL")
    hosts = 0
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"host":
            hosts += 1
            if value.translate(None, _IN_A_HOST):
                raise BadRequestError("the Host header is not a host with or without a port")
        elif name == b"transfer-encoding":
            codings.append(value.lower())
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise BadRequestError("exactly one Host header is required")
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise BadRequestError("the only transfer coding is chunked, once, in HTTP/1.1")


def without_upgrade(request_line: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The head again, without its offer to change the protocol (RFC 9110 section 7.8)."""
    lines = [request_line]
    for name, value in headers:
        if name == b"connection" and b"close" in value.lower():
            lines.append(b"connection: close")
        elif name not in (b"connection", b"upgrade", b"http2-settings"):
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n"
