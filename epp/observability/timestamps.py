"""Times of log lines."""

import time

__all__ = ["Timestamps", "iso_utc"]


def iso_utc(wall: float) -> str:
    """Seconds since the epoch as `2026-11-30T13:15:02.125Z`."""
    whole, milliseconds = divmod(int(wall * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"


class Timestamps:
    """The same, with the part down to the second kept until the second is over."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def iso_utc(self, wall: float) -> str:
        """Seconds since the epoch as `2026-11-30T13:15:02.125Z`."""
        second, milliseconds = divmod(int(wall * 1000), 1000)
        if second != self._second:
            self._second = second
            self._text = iso_utc(float(second))[:-4]
        return f"{self._text}{milliseconds:03d}Z"
