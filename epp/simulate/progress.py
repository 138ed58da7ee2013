"""How far a long command is, on stderr; stdout holds only its result."""

import sys
import time
from typing import TextIO

__all__ = ["ProgressLine"]

_INTERVAL_S = 0.5


class ProgressLine:
    """`label  12/48  25 %  about 30 s left`, rewritten in place on a terminal, else written rarely."""

    def __init__(self, label: str, stream: TextIO | None = None, *, interval_s: float = _INTERVAL_S) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._interval_s = interval_s if self._stream.isatty() else max(interval_s, 10 * _INTERVAL_S)
        self._started = self._shown = time.monotonic()

    def __call__(self, done: float, total: float) -> None:
        """`done` of `total` is finished."""
        now = time.monotonic()
        if now - self._shown < self._interval_s or not total:
            return
        self._shown = now
        share = done / total
        left = f"about {(now - self._started) / share * (1 - share):.0f} s left" if share else "…"
        end = "\r" if self._stream.isatty() else "\n"
        self._stream.write(f"{self._label}  {done:.0f}/{total:.0f}  {share:.0%}  {left}   {end}")
        self._stream.flush()

    def close(self) -> None:
        """Leave the line."""
        if self._stream.isatty():
            self._stream.write("\x1b[2K")
            self._stream.flush()
