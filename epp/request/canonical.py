"""The bytes that stand for a prompt: injective and prefix-preserving.

A prompt is a sequence of fields, each ended by a byte that UTF-8 cannot contain and that tells its kind:

    0xFF TEXT     text of a message
    0xFE ROLE     role; begins a message
    0xFD NAME     name of what follows
    0xFC VALUE    JSON of a named argument of the template, or of a named member of the message
    0xFB MEDIUM   digest of a named image, sound or video, repeated up to `MEDIUM_BYTES`
    0xFA MEMBER   JSON of a named member of a part that is neither text nor medium
    0xF9 NESTED   nothing; the parts that a named member of such a part holds follow
    0xF8 PART     nothing; the end of such a part

No count or length stands before content, so that longer text, more parts and more messages keep all earlier
bytes. Strings stand decoded, as UTF-8, after a quote where other JSON may stand; JSON stands as the client
wrote it. Two prompts of the same bytes are the same prompt, but for collisions of a medium's 128-bit digest.
"""

from typing import Final

import msgspec
import xxhash

__all__ = ["MEDIUM_BYTES", "NEVER_IN_UTF8", "PromptBytes", "string_bytes"]

_TEXT: Final = b"\xff"
_ROLE: Final = b"\xfe"
_NAME: Final = b"\xfd"
_VALUE: Final = b"\xfc"
_MEDIUM: Final = b"\xfb"
_MEMBER: Final = b"\xfa"
_NESTED: Final = b"\xf9"
_PART: Final = b"\xf8"

NEVER_IN_UTF8: Final = (0xC0, 0xC1, *range(0xF5, 0x100))
"""RFC 3629 §1: the octet values C0, C1, F5 to FF never appear."""

MEDIUM_BYTES: Final = 4096
"""What an image, sound or video counts as: an image costs 600 to 1,400 tokens, as much as 4 kB of text."""

_MAX_MEDIA: Final = 256
_MAX_CHUNKS: Final = 65_536

_NOTHING: Final = frozenset({b"", b"null", b"[]", b"{}", b'""'})

_decode_str = msgspec.json.Decoder(str).decode


def string_bytes(raw: bytes) -> bytes:
    """The UTF-8 text of a JSON string, quotes and escapes undone."""
    if b"\\" not in raw:
        return raw[1:-1]
    return _decode_str(raw).encode()


def _json_bytes(raw: bytes) -> bytes:
    """A string keeps its opening quote, which no other JSON value begins with."""
    return b'"' + string_bytes(raw) if raw.startswith(b'"') else raw


class PromptBytes:
    """Collects one prompt field by field.

    What it costs is bounded for any body: past 65,536 chunks (about 16,000 messages) a prompt `is_full` and
    its writer should stop, which leaves a prefix of it; past 256 media a digest is not repeated.
    """

    __slots__ = ("_chunks", "_media")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._media = 0

    @property
    def is_full(self) -> bool:
        """No more messages or parts should be written."""
        return len(self._chunks) >= _MAX_CHUNKS

    def role(self, name: str) -> None:
        """Begin a message."""
        self._chunks += (name.encode(), _ROLE)

    def text(self, text: str) -> None:
        """A string content, or one part of text: the same to a chat template."""
        self._chunks += (text.encode(), _TEXT)

    def value(self, name: str, value: msgspec.Raw) -> None:
        """A named value, unless it says nothing: absent, null and empty are the same to a template."""
        raw = bytes(value)
        if raw not in _NOTHING:
            self._chunks += (name.encode(), _NAME, _json_bytes(raw), _VALUE)

    def medium(self, name: str, reference: bytes) -> None:
        """An image, sound or video by its URL or inline data, which are hashed and never decoded."""
        self._media += 1
        digest = xxhash.xxh3_128_hexdigest(reference).encode()
        copies = MEDIUM_BYTES // len(digest) if self._media <= _MAX_MEDIA else 1
        self._chunks += (name.encode(), _NAME, digest * copies, _MEDIUM)

    def member(self, name: str, value: msgspec.Raw) -> None:
        """A member of a part of another kind."""
        self._chunks += (name.encode(), _NAME, _json_bytes(bytes(value)), _MEMBER)

    def nested(self, name: str) -> None:
        """The member of a part that holds parts; they are written next, then `end_part`."""
        self._chunks += (name.encode(), _NAME, _NESTED)

    def end_part(self) -> None:
        """All members of a part of another kind are written."""
        self._chunks.append(_PART)

    def finish(self) -> bytes:
        """The prompt."""
        return b"".join(self._chunks)
