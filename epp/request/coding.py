"""Content codings of a request body (RFC 9110 §8.4): decoded for routing, never for forwarding."""

import zlib
from typing import Final

from epp.errors import BadRequestError, PayloadTooLargeError, UnsupportedEncodingError

__all__ = ["decode_body"]

_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_MAX_CODINGS: Final = 2  # nobody compresses more often; each layer multiplies what a bomb can cost
_MAX_MEMBERS: Final = 16  # each member copies the rest of the body once


def decode_body(content_encoding: str | None, body: bytes, limit_bytes: int) -> bytes:
    """Undo the codings that `content-encoding` lists, last applied first.

    Memory stays within `limit_bytes` a layer, whatever the body inflates to.

    Args:
        content_encoding: the header's value, None when absent; names are case-insensitive.
        body: as it came.
        limit_bytes: what the result, and every layer on the way to it, may measure.

    Raises:
        BadRequestError: the data do not follow the coding.
        PayloadTooLargeError: a layer inflates to more than `limit_bytes`.
        UnsupportedEncodingError: a coding other than gzip, deflate and identity, or more than two.
    """
    for coding in reversed(_codings(content_encoding)):
        body = _gunzip(body, limit_bytes) if coding == "gzip" else _inflate(body, limit_bytes)
    if len(body) > limit_bytes:
        raise PayloadTooLargeError(f"The body is larger than {limit_bytes} bytes")
    return body


def _codings(content_encoding: str | None) -> list[str]:
    names = [name.strip().lower() for name in (content_encoding or "").split(",")]
    codings = ["gzip" if name == "x-gzip" else name for name in names if name not in {"", "identity"}]
    if len(codings) > _MAX_CODINGS:
        raise UnsupportedEncodingError(f"More than {_MAX_CODINGS} content codings are not read")
    for coding in codings:
        if coding not in {"gzip", "deflate"}:
            raise UnsupportedEncodingError(
                "This content coding cannot be read for routing; send gzip, deflate or identity"
            )
    return codings


def _gunzip(data: bytes, limit_bytes: int) -> bytes:
    """RFC 1952: a gzip body is one or more members, their contents joined."""
    members: list[bytes] = []
    room = limit_bytes
    for _ in range(_MAX_MEMBERS):
        content, data = _member(data, _GZIP, room, limit_bytes)
        members.append(content)
        room -= len(content)
        if not data:
            return b"".join(members)
    raise BadRequestError(f"A gzip body of more than {_MAX_MEMBERS} members is not read")


def _inflate(data: bytes, limit_bytes: int) -> bytes:
    """RFC 9110's deflate is zlib's format; some clients send raw deflate under the same name."""
    window = _ZLIB if _has_zlib_header(data) else _RAW_DEFLATE
    content, rest = _member(data, window, limit_bytes, limit_bytes)
    if rest:
        raise _corrupt()
    return content


def _has_zlib_header(data: bytes) -> bool:
    """RFC 1950 §2.2: method 8, and the first two bytes are a multiple of 31."""
    return len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0


def _member(data: bytes, window: int, room: int, limit_bytes: int) -> tuple[bytes, bytes]:
    """One compressed stream from the start of `data`, and what stands behind it."""
    inflater = zlib.decompressobj(window)
    try:
        content = inflater.decompress(data, room + 1)
    except zlib.error:
        raise _corrupt() from None
    if len(content) > room:
        raise _too_large(limit_bytes)
    if not inflater.eof:
        raise _corrupt()
    return content, inflater.unused_data


def _corrupt() -> BadRequestError:
    return BadRequestError("The body does not follow its content-encoding")


def _too_large(limit_bytes: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The body inflates to more than {limit_bytes} bytes")
