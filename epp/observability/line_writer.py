"""Writes log lines from a thread, so that a slow disk or a stalled reader never holds the event loop."""

import contextlib
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["LineWriter"]

_MAX_LINES: Final = 100_000  # waiting; some 50 MB


class LineWriter:
    """A queue of lines and the thread that appends them to a file or a stream.

    `write` costs a fraction of a microsecond and never blocks. Lines wait at most `interval_s`. When more
    wait than memory should hold, and when writing fails, lines are dropped and counted in `dropped`.
    """

    def __init__(
        self, path: Path | None = None, *, stream: BinaryIO | None = None, interval_s: float = 0.2
    ) -> None:
        """To the file at `path`, which is opened at once, or else to `stream`, which stays the caller's.

        Raises:
            OSError: the file cannot be opened.
        """
        if (path is None) == (stream is None):
            raise ValueError("a line writer needs either a path or a stream")
        self.dropped = 0
        self._path = path
        self._stream = stream if path is None else path.open("ab")
        self._interval_s = interval_s
        self._batches: deque[list[bytes]] = deque()
        self._queued = 0  # lines in all, counted by who writes
        self._taken = 0  # those of them that left the queue, counted by who flushes
        self._lock = threading.Lock()  # one flush at a time: the thread's, or that of close
        self._reopen = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, lines: list[bytes]) -> None:
        """Queue lines, which get their ends when they are written."""
        if self._queued - self._taken + len(lines) > _MAX_LINES:
            self.dropped += len(lines)
        else:
            self._queued += len(lines)
            self._batches.append(lines)

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="epp-access-log", daemon=True)
        self._thread.start()

    def reopen(self) -> None:
        """Open the file anew before the next lines: log rotation moved it away. Nothing for a stream."""
        self._reopen = self._path is not None

    def flush(self) -> None:
        """Write all lines that wait."""
        with self._lock:
            if self._reopen:
                self._reopen = False
                self._open_again()
            lines: list[bytes] = []
            for _ in range(len(self._batches)):
                lines += self._batches.popleft()
            if lines:
                self._taken += len(lines)
                self._append(lines)

    def close(self) -> None:
        """Stop the thread, write what waits, close the file. Later calls do nothing."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.flush()
        if self._path is not None and self._stream is not None:
            self._stream.close()
            self._stream = None

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.flush()

    def _open_again(self) -> None:
        if self._path is None or self._stream is None:
            return
        # When the new file cannot be opened the old one goes on: lines in the wrong place beat lost ones.
        with contextlib.suppress(OSError):
            fresh = self._path.open("ab")
            self._stream.close()
            self._stream = fresh

    def _append(self, lines: list[bytes]) -> None:
        stream = self._stream
        try:
            if stream is not None:
                stream.write(b"\n".join(lines) + b"\n")
                stream.flush()
                return
        except (OSError, ValueError):  # ValueError: somebody closed the stream
            pass
        self.dropped += len(lines)
