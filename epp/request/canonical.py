"""The bytes that stand for a prompt: injective and prefix-preserving.

A prompt is a sequence of fields, each ended by one byte that UTF-8 cannot contain and that tells its kind:

    0xFF TEXT    text of the message
    0xFE ROLE    role; begins a message
    0xFD FIELD   name="text or name=JSON: an argument of the template, or a member of the message
    0xFC MEDIUM  name=digest, the digest repeated up to `MEDIUM_BYTES`
    0xFB PART    JSON of a part of any other kind

No count or length stands before content, so that longer text, more parts and more messages keep all earlier
bytes. Strings stand decoded, as UTF-8; other JSON stands as the client wrote it.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import xxhash

__all__ = [
    "FIELD",
    "MEDIUM",
    "MEDIUM_BYTES",
    "NEVER_IN_UTF8",
    "PART",
    "ROLE",
    "TEXT",
    "field",
    "fields",
    "medium",
    "string_bytes",
]

TEXT: Final = b"\xff"
ROLE: Final = b"\xfe"
FIELD: Final = b"\xfd"
MEDIUM: Final = b"\xfc"
PART: Final = b"\xfb"

NEVER_IN_UTF8: Final = (0xC0, 0xC1, *range(0xF5, 0x100))
"""RFC 3629 §1: the octet values C0, C1, F5 to FF never appear."""

MEDIUM_BYTES: Final = 4096
"""What an image, sound or video counts as: an image costs 600 to 1,400 tokens, as much as 4 kB of text."""

_NOTHING: Final = frozenset({b"", b"null", b"[]", b"{}", b'""'})

_decode_str = msgspec.json.Decoder(str).decode


def string_bytes(raw: bytes) -> bytes:
    """The UTF-8 text of a JSON string, quotes and escapes undone."""
    if b"\\" not in raw:
        return raw[1:-1]
    return _decode_str(raw).encode()


def field(name: str, raw: bytes) -> bytes:
    """A named JSON value; a string keeps its opening quote, which no other JSON value begins with."""
    value = b'"' + string_bytes(raw) if raw.startswith(b'"') else raw
    return b"%s=%s%s" % (name.encode(), value, FIELD)


def fields(named: Iterable[tuple[str, msgspec.Raw]]) -> list[bytes]:
    """The fields that say something: absent, null and empty values are the same to a chat template."""
    values = ((name, bytes(raw)) for name, raw in named)
    return [field(name, raw) for name, raw in values if raw not in _NOTHING]


def medium(name: str, reference: bytes) -> bytes:
    """An image, sound or video by its reference: a URL, or inline data that are hashed and never decoded."""
    digest = xxhash.xxh3_128_hexdigest(reference).encode()
    return b"%s=%s%s" % (name.encode(), digest * (MEDIUM_BYTES // len(digest)), MEDIUM)
