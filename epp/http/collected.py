"""A body that is collected piece by piece."""

from typing import Final

__all__ = ["Collected"]

_GROWN_BYTES: Final = 1 << 20
_MOST_PIECES: Final = 1024  # of a body in tiny pieces each would weigh more than its bytes


class Collected:
    """Collects a body. A large one, or one in many pieces, grows in place: to join them would hold others up.

    Attributes:
        size: bytes that came.
    """

    __slots__ = ("_grown", "_pieces", "size")

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []
        self._grown: bytearray | None = None

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.size += len(data)
        if self._grown is not None:
            self._grown += data
        elif self.size <= _GROWN_BYTES and len(self._pieces) < _MOST_PIECES:
            self._pieces.append(data)
        else:
            self._grown = bytearray().join([*self._pieces, data])
            self._pieces.clear()

    def take(self) -> bytes | bytearray:
        """The body; nothing of it is kept here."""
        if self._grown is not None:
            grown, self._grown = self._grown, None
            return grown
        pieces = self._pieces
        if len(pieces) == 1:  # of most requests
            return pieces.pop()
        body = b"".join(pieces)
        pieces.clear()
        return body
