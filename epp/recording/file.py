"""The file of a recording: a thread compresses and writes, so that a slow disk never holds the event loop."""

import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from epp.recording.events import Stopped
from epp.recording.framing import FIRST_LINE, add_entry, frame

__all__ = ["RecordingFile"]

_MOST_WAITING_BYTES: Final = 64 << 20


class RecordingFile:
    """Takes pieces until it has `max_bytes`, or cannot keep up, or cannot write; it ends and says why.

    A file that is there is kept as `<name>.1`. Nobody but its owner may read it.
    """

    def __init__(self, path: Path, max_bytes: int, ended: Callable[[str], None] = lambda _: None) -> None:
        """0 `max_bytes`: no limit. `ended` is told, from the thread, why a recording ended early.

        Raises:
            OSError: it cannot be written.
        """
        self.written = 0
        self._max_bytes = max_bytes
        self._ended = ended
        self._stream: BinaryIO | None = _open(path)
        self._pieces: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._taken_bytes = 0  # by the caller's thread
        self._done_bytes = 0  # by this file's thread
        self._overrun = False
        self._write(FIRST_LINE)
        self._thread = threading.Thread(target=self._run, name="epp-recording", daemon=True)
        self._thread.start()

    def put(self, piece: bytearray) -> bool:
        """Take a piece; False: it is the last one."""
        self._overrun = self._overrun or self._taken_bytes - self._done_bytes > _MOST_WAITING_BYTES
        if self._overrun:
            self._pieces.put(None)
        if self._stream is None or self._overrun:
            return False
        self._taken_bytes += len(piece)
        self._pieces.put(piece)
        return True

    def close(self) -> None:
        """Write what waits, and close. Later calls do nothing."""
        self._pieces.put(None)
        self._thread.join()
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _run(self) -> None:
        while (piece := self._pieces.get()) is not None:
            try:
                self._take(piece)
            except OSError as error:
                self._end(f"writing failed: {error.strerror or error}")
            self._done_bytes += len(piece)
        if self._overrun:
            self._end("the disk did not keep up")

    def _take(self, piece: bytearray) -> None:
        if self._stream is None:
            return
        packed = frame(piece)
        if self._max_bytes and self.written + len(packed) > self._max_bytes:
            self._end(f"the limit of {self._max_bytes:,} bytes was reached")
            return
        self._write(packed)

    def _write(self, content: bytes) -> None:
        if self._stream is not None:
            self._stream.write(content)
            self._stream.flush()
            self.written += len(content)

    def _end(self, why: str) -> None:
        """Say why, and take no more."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        last = bytearray()
        add_entry(last, Stopped(why))
        try:
            with stream:
                stream.write(frame(last))
        except OSError:
            why = f"{why}; its end could not be written"
        self._ended(why)


def _open(path: Path) -> BinaryIO:
    if path.is_file() and path.stat().st_size:
        path.replace(path.with_name(f"{path.name}.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return os.fdopen(descriptor, "wb")
