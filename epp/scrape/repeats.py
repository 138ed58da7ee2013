"""Says that something keeps failing without saying it each time."""

from collections.abc import Callable
from typing import Final

__all__ = ["RepeatLog"]

_EVERY_S: Final = 30.0


class RepeatLog:
    """Logs one endpoint's failures at most every 30 s, and its recovery if a failure was logged before."""

    __slots__ = ("_failures", "_log", "_logged_at", "_subject", "_told")

    def __init__(self, log: Callable[[str], None], subject: str) -> None:
        self._log = log
        self._subject = subject
        self._failures = 0
        self._logged_at: float | None = None
        self._told = False

    def failed(self, detail: str, now: float) -> None:
        """One more failure, at `now` in monotonic seconds."""
        self._failures += 1
        if self._logged_at is None or now - self._logged_at >= _EVERY_S:
            self._logged_at = now
            self._told = True
            in_a_row = f" ({self._failures} failures in a row)" if self._failures > 1 else ""
            self._log(f"{self._subject} failed: {detail}{in_a_row}")

    def worked(self) -> None:
        """It did not fail."""
        if self._told:
            self._log(f"{self._subject} works again, failures before: {self._failures}")
        self._failures = 0
        self._told = False
