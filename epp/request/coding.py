"""Content codings of a request body (RFC 9110 §8.4): decoded for routing, never for forwarding."""

import zlib
from collections.abc import Generator
from typing import Final

from epp.errors import BadRequestError, PayloadTooLargeError, UnsupportedEncodingError
from epp.request.steps import result_of
from epp.request.types import Body

__all__ = ["decode_body", "decode_steps"]

_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_MAX_CODINGS: Final = 2  # nobody compresses more often; each layer multiplies what a bomb can cost
_MAX_MEMBERS: Final = 16  # nobody writes more
_PIECE_BYTES: Final = 65_536  # what zlib is given, and gives, at a time
_STEP_BYTES: Final = 1 << 20  # between which others have their turn


def decode_body(content_encoding: str | None, body: Body, limit_bytes: int) -> Body:
    """`decode_steps` at once."""
    if content_encoding is None and len(body) <= limit_bytes:
        return body
    return result_of(decode_steps(content_encoding, body, limit_bytes))


def decode_steps(content_encoding: str | None, body: Body, limit_bytes: int) -> Generator[None, None, Body]:
    """Undo the codings that `content-encoding` lists, last applied first; yields about each megabyte.

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
        body = yield from (_gunzip if coding == "gzip" else _inflate)(body, limit_bytes)
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


def _gunzip(data: Body, limit_bytes: int) -> Generator[None, None, bytearray]:
    """RFC 1952: a gzip body is one or more members, their contents joined."""
    plain, at = bytearray(), 0
    for _ in range(_MAX_MEMBERS):
        at = yield from _member(data, at, _GZIP, plain, limit_bytes)
        if at == len(data):
            return plain
    raise BadRequestError(f"A gzip body of more than {_MAX_MEMBERS} members is not read")


def _inflate(data: Body, limit_bytes: int) -> Generator[None, None, bytearray]:
    """RFC 9110's deflate is zlib's format; some clients send raw deflate under the same name."""
    window, plain = _ZLIB if _has_zlib_header(data) else _RAW_DEFLATE, bytearray()
    if (yield from _member(data, 0, window, plain, limit_bytes)) < len(data):
        raise _corrupt()
    return plain


def _has_zlib_header(data: Body) -> bool:
    """RFC 1950 §2.2: method 8, and the first two bytes are a multiple of 31."""
    return len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0


def _member(
    data: Body, at: int, window: int, plain: bytearray, limit_bytes: int
) -> Generator[None, None, int]:
    """Add the content of the compressed stream at `at` to `plain`; returns where it ends."""
    inflater, turn_at = zlib.decompressobj(window), len(plain) + _STEP_BYTES
    view, piece, has_more = memoryview(data), b"", False
    while not inflater.eof:
        if not has_more:
            if at == len(data):
                raise _corrupt()
            piece = bytes(view[at : at + _PIECE_BYTES])
            at += len(piece)
        before = len(plain)
        try:
            plain += inflater.decompress(piece, _PIECE_BYTES)
        except zlib.error:
            raise _corrupt() from None
        piece = inflater.unconsumed_tail
        has_more = len(plain) - before == _PIECE_BYTES  # of which zlib may hold some without any input
        if len(plain) > limit_bytes:
            raise _too_large(limit_bytes)
        if len(plain) > turn_at:
            turn_at = len(plain) + _STEP_BYTES
            yield
    return at - len(inflater.unused_data)


def _corrupt() -> BadRequestError:
    return BadRequestError("The body does not follow its content-encoding")


def _too_large(limit_bytes: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The body inflates to more than {limit_bytes} bytes")
