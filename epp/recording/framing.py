r"""The bytes of a recording: a first line for people, then frames, each compressed and with a checksum.

    epp recording 1\n
    [length u32][crc32 u32][zlib: ([length u32][msgpack])*] …

The first entry is the header. A frame that was cut off or damaged ends what can be read; all before it holds.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from epp.recording.events import FORMAT, Event, Header, Stopped

__all__ = ["FIRST_LINE", "MAGIC", "Entries", "RecordingError", "add_entry", "frame"]

MAGIC: Final = b"epp recording "
FIRST_LINE: Final = MAGIC + b"%d\n" % FORMAT
_FRAME: Final = struct.Struct("<II")
_LENGTH: Final = struct.Struct("<I")
_LARGEST_FRAME: Final = 1 << 28
_LEVEL: Final = 1

_encoder: Final = msgspec.msgpack.Encoder()
_header: Final = msgspec.msgpack.Decoder(Header)
_event: Final = msgspec.msgpack.Decoder(Event)


class RecordingError(Exception):
    """A file is no recording, or none that this version reads."""


def add_entry(buffer: bytearray, entry: Event | Header) -> None:
    """Append an entry to what will be a frame."""
    start = len(buffer)
    buffer += b"\0\0\0\0"
    _encoder.encode_into(entry, buffer, -1)
    _LENGTH.pack_into(buffer, start, len(buffer) - start - 4)


def frame(entries: bytes | bytearray) -> bytes:
    """Entries as they stand in the file."""
    packed = zlib.compress(entries, _LEVEL)
    return _FRAME.pack(len(packed), zlib.crc32(packed)) + packed


class Entries:
    """Reads a recording once.

    Attributes:
        header: what stands first.
        ending: how it ends, once all was read: as the router told it, or what is wrong with the rest.
        complete: it ends as the router told it.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Of a file opened for reading bytes.

        Raises:
            RecordingError: it is no recording of this format.
        """
        self._stream = stream
        self.complete = False
        self.ending = ""
        self._events = 0
        self._left = self._parts()
        _check_first_line(stream.readline(64))
        first = next(self._left, None)
        if first is None:
            raise RecordingError(f"it has no header: {self.ending}")
        try:
            self.header = _header.decode(first)
        except msgspec.DecodeError as error:
            raise RecordingError(f"its header cannot be read: {error}") from None

    @property
    def place(self) -> int:
        """How many bytes of the file have been read."""
        return self._stream.tell()

    def __iter__(self) -> Iterator[Event]:
        for part in self._left:
            try:
                event: Event = _event.decode(part)
            except msgspec.DecodeError as error:
                self.ending = f"entry {self._events + 1:,} cannot be read ({error})"
                return
            self._events += 1
            if isinstance(event, Stopped):
                self.complete, self.ending = True, event.why
                return
            yield event

    def _parts(self) -> Iterator[bytes]:
        """Entries as bytes, until the file ends or is damaged."""
        while True:
            place = self._stream.tell()
            try:
                packed = _next_frame(self._stream)
                yield from _split(zlib.decompress(packed))
            except (_FrameError, zlib.error) as fault:
                self.ending = f"{fault}, after {self._events:,} entries (byte {place:,})"
                return


class _FrameError(Exception):
    """Why no further frame can be read."""


def _check_first_line(line: bytes) -> None:
    if line == FIRST_LINE:
        return
    number = line.removeprefix(MAGIC).strip()
    if line.startswith(MAGIC) and number.isdigit():
        raise RecordingError(f"its format is {int(number)}; this version of epp reads format {FORMAT}")
    raise RecordingError("it does not begin as a recording of epp does")


def _next_frame(stream: BinaryIO) -> bytes:
    start = stream.read(_FRAME.size)
    if not start:
        raise _FrameError("it has no end, since the router was killed or still runs")
    if len(start) < _FRAME.size:
        raise _FrameError("it was cut off")
    length, checksum = _FRAME.unpack(start)
    packed = stream.read(min(length, _LARGEST_FRAME))
    if len(packed) < length:
        raise _FrameError("it was cut off")
    if zlib.crc32(packed) != checksum:
        raise _FrameError("it is damaged")
    return packed


def _split(entries: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(entries):
        (length,) = _LENGTH.unpack_from(entries, place)
        place += _LENGTH.size
        yield entries[place : place + length]
        place += length
