"""A saved state as the bytes of a file.

    magic  format  size of the header  header (msgpack)  arrays  checksum

The arrays are 64-bit and little-endian: parents, weights and ends of the runs, their hashes, then runs and
amounts of each list. The checksum is XXH3-128 of everything before it. No prompt can be read from any of it.
"""

import sys
from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final

import msgspec
from xxhash import xxh3_128, xxh3_128_digest

from epp.director.saved import Saved, SavedHeader
from epp.prefix.saving import Entries, RunTable

__all__ = ["FORMAT", "SavedFileError", "from_bytes", "to_bytes"]

FORMAT: Final = 1
"""Of what is written; no other is read."""

_MAGIC: Final = b"epp-state\n"
_START: Final = Struct("<10sIQ")  # magic, format, bytes of the header
_WORD: Final = 8
_DIGEST: Final = 16


class SavedFileError(ValueError):
    """The file cannot be used; says why in a few words."""


class _Head(msgspec.Struct):
    """What stands before the arrays."""

    header: SavedHeader
    runs: int
    hashes: int


def to_bytes(saved: Saved) -> Iterator[bytes]:
    """The file, piece by piece."""
    digest = xxh3_128()
    for piece in _pieces(saved):
        digest.update(piece)
        yield piece
    yield digest.digest()


def _pieces(saved: Saved) -> Iterator[bytes]:
    runs = saved.runs
    hashes = sum(len(chunk) for chunk in runs.hashes)
    head = msgspec.msgpack.encode(_Head(saved.header, len(runs.parents), hashes))
    yield _START.pack(_MAGIC, FORMAT, len(head))
    yield head
    for column in (runs.parents, runs.weights, runs.ends, *runs.hashes):
        yield _little_endian(column).tobytes()
    for entries in saved.entries:
        yield _little_endian(entries.runs).tobytes()
        yield _little_endian(entries.amounts).tobytes()


def from_bytes(data: bytes) -> Saved:
    """Read a file.

    Raises:
        SavedFileError: it is none, of another format, or damaged.
    """
    if len(data) < _START.size + _DIGEST:
        raise SavedFileError("it is too short")
    magic, version, head_bytes = _START.unpack_from(data)
    if magic != _MAGIC:
        raise SavedFileError("it is no saved state")
    if version != FORMAT:
        raise SavedFileError(f"it has format {version}, not {FORMAT}")
    view = memoryview(data)
    if xxh3_128_digest(view[:-_DIGEST]) != view[-_DIGEST:]:
        raise SavedFileError("it is damaged: its checksum is wrong")
    return _read(view[_START.size : -_DIGEST], head_bytes)


def _read(view: memoryview, head_bytes: int) -> Saved:
    try:
        head = msgspec.msgpack.decode(view[:head_bytes], type=_Head)
    except msgspec.MsgspecError as error:
        raise SavedFileError(f"its header cannot be read: {error}") from None
    reader = _Reader(view[head_bytes:])
    parents, weights, ends = (reader.take("q", head.runs) for _ in range(3))
    runs = RunTable(parents, weights, ends, [reader.take("Q", head.hashes)])
    entries = [
        Entries(reader.take("q", part.entries), reader.take("q", part.entries)) for part in head.header.lists
    ]
    if reader.left:
        raise SavedFileError(f"it has {reader.left} bytes too many")
    _check_numbers(head.header)
    return Saved(head.header, runs, entries)


def _check_numbers(header: SavedHeader) -> None:
    for part in header.lists:
        if part.view not in range(len(header.views)) or part.endpoint not in range(len(header.endpoints)):
            raise SavedFileError("a list names a view or an endpoint that is not there")


class _Reader:
    """Takes arrays off the front of what is left."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    @property
    def left(self) -> int:
        return len(self._view)

    def take(self, kind: str, count: int) -> "array[int]":
        size = count * _WORD
        if count < 0 or size > len(self._view):
            raise SavedFileError("it is too short")
        taken = array(kind)
        taken.frombytes(self._view[:size])
        self._view = self._view[size:]
        return _little_endian(taken)


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped
