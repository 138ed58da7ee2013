"""A file whose content is followed by looking at it: no notification service, any file system.

A file that another one is put in place of (a rename, a ConfigMap's symbolic link) is complete when it is
seen. One that is written in place may be seen half written: it counts when two looks in a row saw the same.
"""

import asyncio
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["FileProblemError", "Snapshot", "WatchedFile", "take_snapshot"]


class FileProblemError(Exception):
    """The file cannot be read; says why, in one line."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file at one moment. Another file has another `identity`, one that was written to another `stamp`."""

    identity: tuple[int, int]
    stamp: tuple[int, int, int]
    content: bytes


def take_snapshot(path: str, max_bytes: int, known: Snapshot | None) -> Snapshot:
    """The file as it is; `known` again, without reading it, when nothing says that it changed. Blocks.

    Raises:
        FileProblemError: it cannot be read, is no regular file, or is larger than `max_bytes`.
    """
    try:
        # Without blocking, since opening a named pipe would wait for its writer.
        with open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FileProblemError(f"{path} is not a regular file")
            identity = (status.st_dev, status.st_ino)
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            if known is not None and (known.identity, known.stamp) == (identity, stamp):
                return known
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise FileProblemError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(content) > max_bytes:
        raise FileProblemError(f"{path} is larger than {max_bytes} bytes")
    return Snapshot(identity, stamp, content)


class WatchedFile:
    """Tells each content of a file once."""

    def __init__(
        self,
        path: str,
        max_bytes: int,
        snapshot: Callable[[str, int, Snapshot | None], Snapshot] = take_snapshot,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._snapshot = snapshot
        self._last: Snapshot | None = None
        self._calm = False  # the last two looks saw the same: nobody is writing
        self._told: bytes | None = None

    async def look(self, *, at_once: bool = False) -> bytes | None:
        """The content, when it is another than the one told last; None when it is not, or not yet for sure.

        After a failure it is told again. With `at_once` a file that was written in place is taken as it is.

        Raises:
            FileProblemError: it cannot be read.
        """
        last = self._last
        try:
            seen = await asyncio.to_thread(
                self._snapshot, self.path, self._max_bytes, last if self._calm else None
            )
        except FileProblemError:
            self.forget()
            raise
        replaced = last is None or seen.identity != last.identity
        self._calm = seen == last
        self._last = seen
        if seen.content == self._told or not (replaced or self._calm or at_once):
            return None
        self._told = seen.content
        return seen.content

    def forget(self) -> None:
        """Tell the content again at the next look."""
        self._last = self._told = None
