"""Where WebSocket frames begin and end (RFC 6455, section 5.2), without looking into them."""

from typing import Final

__all__ = ["GOING_AWAY", "FrameTracker"]

GOING_AWAY: Final = b"\x88\x02\x03\xe9"
"""A server's close frame with the status 1001: an endpoint goes away (RFC 6455, section 7.4.1)."""

_MASK_BYTES: Final = 4
_LENGTH_BYTES: Final = {126: 2, 127: 8}


class FrameTracker:
    """Follows one direction of a connection, in pieces cut anywhere."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = bytearray()  # of a frame whose head is not complete
        self._left = 0  # payload of the begun frame that is still to come

    @property
    def between_frames(self) -> bool:
        """A frame of our own could go here."""
        return not self._head and not self._left

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        position = 0
        while position < len(data):
            position = self._step(data, position)

    def rest_of_frame(self, data: bytes) -> bytes:
        """Take the next piece up to the end of the frame that had begun; returns that part."""
        position = 0
        while position < len(data) and not self.between_frames:
            position = self._step(data, position)
        return data[:position]

    def _step(self, data: bytes, position: int) -> int:
        """Go over the rest of a payload, or a part of a head; returns the position behind it."""
        if self._left:
            step = min(self._left, len(data) - position)
            self._left -= step
            return position + step
        end = position + _head_bytes(self._head) - len(self._head)
        self._head += data[position:end]
        if len(self._head) == _head_bytes(self._head):
            self._left = _payload_bytes(self._head)
            self._head.clear()
        return min(end, len(data))


def _head_bytes(head: bytearray) -> int:
    """Size of the head that begins like this, as far as it is known."""
    if len(head) < 2:
        return 2
    masked = head[1] & 0x80
    return 2 + _LENGTH_BYTES.get(head[1] & 0x7F, 0) + (_MASK_BYTES if masked else 0)


def _payload_bytes(head: bytearray) -> int:
    short = head[1] & 0x7F
    return int.from_bytes(head[2 : 2 + _LENGTH_BYTES[short]], "big") if short in _LENGTH_BYTES else short
