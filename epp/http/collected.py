"""A body that is collected piece by piece."""

from typing import Final

__all__ = ["Collected"]

_GROWN_BYTES: Final = 1 << 20


class Collected:
    """Collects a body. A large one grows in place: joining its pieces at the end would hold others up.

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
        if self.size <= _GROWN_BYTES:
            self._pieces.append(data)
        elif self._grown is None:
            self._grown = bytearray().join([*self._pieces, data])
            self._pieces.clear()
        else:
            self._grown += data

    def take(self) -> bytes | bytearray:
        """The body; nothing of it is kept here."""
        grown, pieces = self._grown, self._pieces
        self._grown, self._pieces = None, []
        return b"".join(pieces) if grown is None else grown
