"""The picker's answers as bytes: protobuf's wire format by hand.

An answer is a few nested fields that differ in a handful of values; building it of message objects costs
several times as much. Field numbers are those of `messages`, with which the tests read what stands here.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from epp.gateway.events import DESTINATION, Mutation
from epp.http.types import Headers

__all__ = ["immediate", "mutated", "picked", "piece"]

_OVERWRITE: Final = b"\x18\x02"  # HeaderValueOption.append_action: OVERWRITE_IF_EXISTS_OR_ADD
_END: Final = b"\x10\x01"  # StreamedBodyResponse.end_of_stream
_NAMESPACE: Final = b"envoy.lb"


def _field(number: int, content: bytes) -> bytes:
    """A field that has a length: text, bytes or a message."""
    size = len(content)
    if size < 128:
        return b"%c%c%b" % (number << 3 | 2, size, content)
    return b"%c%b%b" % (number << 3 | 2, _varint(size), content)


def _varint(number: int) -> bytes:
    if number < 128:
        return b"%c" % number
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


@lru_cache(maxsize=256)
def _key(name: bytes) -> bytes:
    """HeaderValue.key; names are few."""
    return _field(1, name)


def _headers(headers: Headers) -> list[bytes]:
    """HeaderMutation.set_headers."""
    return [_field(1, _field(1, _key(name) + _field(3, value)) + _OVERWRITE) for name, value in headers]


def _mutation(mutation: Mutation) -> bytes:
    """HeaderMutation."""
    removed = [_field(2, name.encode()) for name in mutation.removed]
    return b"".join([*_headers(mutation.replaced), *removed])


def mutated(field: int, mutation: Mutation, body: bytes | None = None) -> bytes:
    """A ProcessingResponse whose `field` lets a head or a body go on with its head changed.

    `body` takes the place of the body.
    """
    changed = b"" if body is None else _field(3, _field(1, body))
    return _field(field, _field(1, _field(2, _mutation(mutation)) + changed))


def picked(field: int, mutation: Mutation, destination: str, body: bytes | None = None) -> bytes:
    """The same with the pick, as a header and as metadata."""
    header, metadata = _pick(destination)
    changed = b"" if body is None else _field(3, _field(1, body))
    return _field(field, _field(1, _field(2, header + _mutation(mutation)) + changed)) + metadata


@lru_cache(maxsize=1024)
def _pick(destination: str) -> tuple[bytes, bytes]:
    """HeaderMutation.set_headers and ProcessingResponse.dynamic_metadata; fleets have few endpoints."""
    name, value = DESTINATION.encode("ascii"), destination.encode("ascii")
    [header] = _headers([(name, value)])
    inner = _field(5, _field(1, _field(1, name) + _field(2, _field(3, value))))
    return header, _field(8, _field(1, _field(1, _NAMESPACE) + _field(2, inner)))


def piece(field: int, data: bytes, *, end_of_stream: bool) -> bytes:
    """A ProcessingResponse whose `field` sends a part of a body back."""
    streamed = _field(1, data) + (_END if end_of_stream else b"")
    return _field(field, _field(1, _field(3, _field(3, streamed))))


def immediate(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """A ProcessingResponse that answers the client."""
    code = _field(1, b"\x08" + _varint(status))
    changed = _field(2, b"".join(_headers(list(headers))))
    return _field(7, code + changed + _field(3, body))
