"""The server's side of WebSocket (RFC 6455), as far as the simulated server needs it."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Final

__all__ = ["CLOSE", "PING", "PONG", "TEXT", "FrameReader", "ProtocolError", "accept_key", "frame"]

TEXT: Final = 0x1
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

_CONTINUATION: Final = 0x0
_MASK_BYTES: Final = 4
_LENGTH_BYTES: Final = {126: 2, 127: 8}
_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class ProtocolError(Exception):
    """The client does not follow the protocol."""


def accept_key(key: str) -> str:
    """The answer to `sec-websocket-key` (section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()  # noqa: S324  the protocol's


def frame(opcode: int, payload: bytes) -> bytes:
    """One final frame of a server, which does not mask."""
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | opcode, size])
    elif size < 65_536:
        head = bytes([0x80 | opcode, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | opcode, 127]) + size.to_bytes(8, "big")
    return head + payload


class FrameReader:
    """Messages and control frames out of bytes that come cut anywhere."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._opcode = _CONTINUATION
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Opcode and payload of what is complete; raises ProtocolError."""
        self._buffer += data
        while (found := self._take_frame()) is not None:
            final, opcode, payload = found
            if opcode >= CLOSE:
                yield opcode, payload
                continue
            if opcode != _CONTINUATION:
                self._opcode = opcode
            self._parts.append(payload)
            if final:
                message = b"".join(self._parts)
                self._parts.clear()
                yield self._opcode, message

    def _take_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        if not buffer[1] & 0x80:
            raise ProtocolError("a client must mask its frames")
        short = buffer[1] & 0x7F
        start = 2 + _LENGTH_BYTES.get(short, 0)
        if len(buffer) < start + _MASK_BYTES:
            return None
        size = int.from_bytes(buffer[2:start], "big") if short in _LENGTH_BYTES else short
        if size > _MAX_MESSAGE_BYTES:
            raise ProtocolError("the message is too large")
        end = start + _MASK_BYTES + size
        if len(buffer) < end:
            return None
        mask = bytes(buffer[start : start + _MASK_BYTES])
        payload = _unmasked(bytes(buffer[start + _MASK_BYTES : end]), mask)
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[:end]
        return final, opcode, payload


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    """Section 5.3, for all bytes at once."""
    size = len(payload)
    repeated = (mask * (size // _MASK_BYTES + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
