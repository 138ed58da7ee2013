"""What a request head must satisfy beyond the parser's own checks (RFC 9112; request smuggling).

The parser already refuses: both content-length and transfer-encoding, a repeated, listed or malformed
content-length, folded header lines, white space before a colon, bare line feeds, control characters, and bad
chunk sizes. What it lets through, and a server behind us may read differently, is refused here.
"""

from functools import lru_cache
from itertools import chain
from typing import Final
from urllib.parse import unquote

import httptools

from epp.errors import BadRequestError

__all__ = ["check_head", "size_of_field", "size_of_head", "target_of", "without_upgrade"]

# A name, an address, a port (RFC 3986, section 3.2.2); no list, no user, no path.
_IN_A_HOST: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~%!$&'()*+;=:[]"
_VERSIONS: Final = frozenset({"1.0", "1.1"})
# What frames a header field (": " and the line end) and the request line (two spaces, version, line end).
_FIELD_FRAMING: Final = 4
_REQUEST_LINE_FRAMING: Final = 12
_KNOWN_TARGETS: Final = 256


def size_of_field(name: bytes, value: bytes) -> int:
    """Bytes of a header or trailer field."""
    return len(name) + len(value) + _FIELD_FRAMING


def size_of_head(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """Bytes of a head, but for the method."""
    texts = sum(map(len, chain.from_iterable(headers)))
    return _REQUEST_LINE_FRAMING + len(url) + texts + _FIELD_FRAMING * len(headers)


def check_head(
    method: bytes, url: bytes, version: str, headers: list[tuple[bytes, bytes]]
) -> dict[bytes, bytes]:
    """Refuse a head that two servers could understand differently. Header names are lower-case.

    Returns the headers by name; of one that is repeated the last.

    Raises:
        BadRequestError: with what is wrong.
    """
    if version not in _VERSIONS:
        raise BadRequestError("only HTTP/1.1 and HTTP/1.0 are spoken here")
    if method == b"CONNECT":
        raise BadRequestError("CONNECT is not supported")
    if not url.startswith((b"/", b"http://", b"https://")) and (url != b"*" or method != b"OPTIONS"):
        raise BadRequestError("the request target is neither a path nor an absolute URL")
    fields = dict(headers)
    repeated = len(fields) != len(headers)
    host, coding = fields.get(b"host"), fields.get(b"transfer-encoding")
    if host is not None and host.translate(None, _IN_A_HOST):
        raise BadRequestError("the Host header is not a host with or without a port")
    if (host is None and version == "1.1") or (repeated and _count(b"host", headers) > 1):
        raise BadRequestError("exactly one Host header is required")
    if coding is not None and (
        coding.lower() != b"chunked"
        or version == "1.0"
        or (repeated and _count(b"transfer-encoding", headers) > 1)
    ):
        raise BadRequestError("the only transfer coding is chunked, once, in HTTP/1.1")
    return fields


def _count(wanted: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return sum(name == wanted for name, _ in headers)


# Targets come from a few clients and repeat with each request.
@lru_cache(_KNOWN_TARGETS)
def target_of(url: bytes) -> tuple[str, bytes, bytes]:
    """Decoded path, path and query of a request target.

    Raises:
        HttpParserInvalidURLError: it cannot be parsed.
    """
    parsed = httptools.parse_url(url)
    raw_path: bytes = parsed.path or b"/"
    path = raw_path.decode("ascii")
    return unquote(path) if "%" in path else path, raw_path, parsed.query or b""


def without_upgrade(request_line: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The head again, without its offer to change the protocol (RFC 9110 section 7.8)."""
    lines = [request_line]
    for name, value in headers:
        if name == b"connection" and b"close" in value.lower():
            lines.append(b"connection: close")
        elif name not in (b"connection", b"upgrade", b"http2-settings"):
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n"
