"""JSON too long to be read in one step: written to a prompt piece by piece, to the same bytes."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import xxhash

__all__ = [
    "Long", "LongJson", "LongMedium", "is_list", "is_object", "is_string", "list_of", "says_nothing",
    "string_or_none", "string_pieces",
]  # fmt: skip

_QUOTE: Final = 0x22
_BRACE: Final = 0x7B
_BRACKET: Final = 0x5B
_NULL: Final = b"null"
_ESCAPE_BYTES: Final = 6  # of the longest escape, \u and four digits
_PAIR_BYTES: Final = 2 * _ESCAPE_BYTES
_HIGH_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB]")

_decode_str = msgspec.json.Decoder(str).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def is_object(raw: memoryview) -> bool:
    """Whether this JSON is an object."""
    return raw[0] == _BRACE


def is_list(raw: memoryview) -> bool:
    """Whether this JSON is a list."""
    return raw[0] == _BRACKET


def is_string(raw: memoryview) -> bool:
    """Whether this JSON is a string."""
    return raw[0] == _QUOTE


def says_nothing(raw: msgspec.Raw) -> bool:
    """Whether it is null, or nothing stands here."""
    return not raw or (len(raw) == len(_NULL) and bytes(raw) == _NULL)


def list_of(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The JSON of each element; none of null and where nothing stands.

    Raises:
        ValidationError: it is something else.
    """
    return [] if says_nothing(raw) else _decode_list(raw)


def string_or_none(raw: msgspec.Raw) -> memoryview | None:
    """The JSON of a string; None for null and where nothing stands.

    Raises:
        ValidationError: it is something else.
    """
    if says_nothing(raw):
        return None
    view = memoryview(raw)
    if not is_string(view):
        raise msgspec.ValidationError("Expected `str | null`")
    return view


def string_pieces(raw: memoryview, step_bytes: int) -> Iterator[bytes]:
    """The UTF-8 text of a JSON string, quotes and escapes undone, up to `step_bytes` (at least 16) at a time.

    `raw` has the syntax of JSON; msgspec checks that even of what it skips.

    Raises:
        ValueError: it is not UTF-8, which msgspec does not check of what it skips.
    """
    at, end = 1, len(raw) - 1
    while at < end:
        piece = bytes(raw[at : min(at + step_bytes, end)])
        if at + len(piece) < end:
            piece = piece[: _whole(piece)]
        at += len(piece)
        yield _text(piece)


def _text(piece: bytes) -> bytes:
    if b"\\" in piece:
        return _decode_str(b'"%b"' % piece).encode()
    if not piece.isascii():
        piece.decode()
    return piece


def _whole(piece: bytes) -> int:
    """How much of `piece` can be read without what follows: it ends between characters, escapes and pairs."""
    slash = piece.rfind(b"\\", len(piece) - _ESCAPE_BYTES)
    if slash >= 0 and _opens_escape(piece, slash):
        before = slash - _ESCAPE_BYTES
        if before >= 0 and _HIGH_SURROGATE.match(piece, before) and _opens_escape(piece, before):
            return before
        return slash
    end = len(piece)
    while end > len(piece) - 3 and piece[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if piece[end - 1] >= 0xC0 else end


def _opens_escape(piece: bytes, slash: int) -> bool:
    """Of a run of backslashes each second one is escaped by the one before it."""
    upto = piece[: slash + 1]
    return (len(upto) - len(upto.rstrip(b"\\"))) % 2 == 1


def _pieces(raw: memoryview, step_bytes: int) -> Iterator[bytes]:
    """The text of a string; any other JSON as it is."""
    if is_string(raw):
        return string_pieces(raw, step_bytes)
    return (bytes(raw[at : at + step_bytes]) for at in range(0, len(raw), step_bytes))


class LongJson:
    """The text of a string, or other JSON as the client wrote it."""

    __slots__ = ("_quote", "_raw", "_step_bytes")

    def __init__(self, raw: memoryview, step_bytes: int, *, quote: bool) -> None:
        """`quote`: a string keeps its opening quote."""
        self._raw = raw
        self._step_bytes = step_bytes
        self._quote = quote

    def pieces(self) -> Iterator[bytes]:
        """What is written, in order."""
        if self._quote and is_string(self._raw):
            yield b'"'
        yield from _pieces(self._raw, self._step_bytes)


class LongMedium:
    """The digest of an image, sound or video by its URL or inline data."""

    __slots__ = ("_copies", "_reference", "_step_bytes")

    def __init__(self, reference: memoryview, step_bytes: int, *, copies: int) -> None:
        self._reference = reference
        self._step_bytes = step_bytes
        self._copies = copies

    def pieces(self) -> Iterator[bytes]:
        """Nothing while it is hashed, then the digest as often as it counts."""
        digest = xxhash.xxh3_128()
        for piece in _pieces(self._reference, self._step_bytes):
            digest.update(piece)
            yield b""
        yield digest.hexdigest().encode() * self._copies


Long = LongJson | LongMedium
"""What a prompt is made of besides bytes that are here."""
