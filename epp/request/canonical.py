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

from collections.abc import Generator
from typing import Final

import msgspec
import xxhash

from epp.request.long_json import Long, LongJson, LongMedium

__all__ = ["LARGE_BYTES", "MEDIUM_BYTES", "NEVER_IN_UTF8", "PromptBytes", "string_bytes"]

LARGE_BYTES: Final = 1 << 20
"""A body of more is read in steps of about this size, between which others have their turn."""

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

_DIGEST_BYTES: Final = 32
_MAX_MEDIA: Final = 256
_MAX_CHUNKS: Final = 65_536
_CHUNK_BYTES: Final = 400
_STEP_CHUNKS: Final = 8192  # of which each costs something, however short it is

_NOTHING: Final = frozenset({b"", b"null", b"[]", b"{}", b'"'})

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

    JSON longer than `step_bytes`, of which a body that is not large has none, is written by `finish_steps`.
    """

    __slots__ = ("_chunks", "_media", "step_bytes")

    def __init__(self, step_bytes: int = LARGE_BYTES) -> None:
        self.step_bytes = step_bytes
        self._chunks: list[bytes | Long] = []
        self._media = 0

    @property
    def cost_bytes(self) -> int:
        """What writing the fields so far has cost beside their bytes, in bytes that take as long to read."""
        return len(self._chunks) * _CHUNK_BYTES

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

    def spoken(self, role: str, text: str) -> None:
        """A message of a string content alone."""
        self._chunks += (role.encode(), _ROLE, text.encode(), _TEXT)

    def text_json(self, raw: memoryview) -> None:
        """The same, of which the JSON string is given."""
        self._chunks += (self._string(raw), _TEXT)

    def bare_text(self, raw: memoryview) -> None:
        """A text that is all of a prompt, or all but arguments before it, and needs no end."""
        self._chunks.append(self._string(raw))

    def _string(self, raw: memoryview) -> bytes | Long:
        if len(raw) > self.step_bytes:
            return LongJson(raw, self.step_bytes, quote=False)
        return _decode_str(raw).encode()

    def value(self, name: str, value: msgspec.Raw) -> None:
        """A named value, unless it says nothing: absent, null and empty are the same to a template."""
        if not value:
            return
        json = self._json(value)
        if json not in _NOTHING:
            self._chunks += (name.encode(), _NAME, json, _VALUE)

    def _json(self, value: msgspec.Raw) -> bytes | Long:
        if len(value) > self.step_bytes:
            return LongJson(memoryview(value), self.step_bytes, quote=True)
        return _json_bytes(bytes(value))

    def medium(self, name: str, reference: bytes) -> None:
        """An image, sound or video by its URL or inline data, which are hashed and never decoded."""
        digest = xxhash.xxh3_128_hexdigest(reference).encode()
        self._chunks += (name.encode(), _NAME, digest * self._copies(), _MEDIUM)

    def long_medium(self, name: str, reference: memoryview) -> None:
        """The same, of which the JSON is given."""
        digest = LongMedium(reference, self.step_bytes, copies=self._copies())
        self._chunks += (name.encode(), _NAME, digest, _MEDIUM)

    def _copies(self) -> int:
        self._media += 1
        return MEDIUM_BYTES // _DIGEST_BYTES if self._media <= _MAX_MEDIA else 1

    def member(self, name: str, value: msgspec.Raw) -> None:
        """A member of a part of another kind."""
        self._chunks += (name.encode(), _NAME, self._json(value), _MEMBER)

    def nested(self, name: str) -> None:
        """The member of a part that holds parts; they are written next, then `end_part`."""
        self._chunks += (name.encode(), _NAME, _NESTED)

    def end_part(self) -> None:
        """All members of a part of another kind are written."""
        self._chunks.append(_PART)

    def finish(self) -> bytes:
        """The prompt, in one step."""
        return b"".join(self._chunks)  # type: ignore[arg-type]  # no JSON is longer than a step

    def finish_steps(self) -> Generator[None, None, bytearray]:
        """The prompt, which grows in place: to join it at the end would be a long step."""
        prompt, turn_at = bytearray(), self.step_bytes
        for number, chunk in enumerate(self._chunks, 1):
            if number % _STEP_CHUNKS == 0:
                yield
            for piece in (chunk,) if isinstance(chunk, bytes) else chunk.pieces():
                prompt += piece
                if not piece or len(prompt) >= turn_at:
                    turn_at = len(prompt) + self.step_bytes
                    yield
        return prompt
