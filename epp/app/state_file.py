"""The file that holds a saved state. Everything here blocks."""

import contextlib
import os
from pathlib import Path
from typing import Final

from epp.director.saved import Saved
from epp.director.saved_file import SavedFileError, from_bytes, to_bytes
from epp.prefix import drain

__all__ = ["STATE_FILE", "read_state", "write_state"]

STATE_FILE: Final = "index.epp-state"
_MODE: Final = 0o600  # hashes tell nobody a prompt, but whether somebody asked a known one
_MAX_BYTES: Final = 4 << 30


def write_state(folder: Path, saved: Saved) -> int:
    """Put a state in place of the one before, whole or not at all; returns its size.

    Raises:
        OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{STATE_FILE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        size = sum(file.write(piece) for piece in to_bytes(saved))
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / STATE_FILE)
    _sync(folder)
    return size


def _sync(folder: Path) -> None:
    """Make the new name outlive the machine's end too, where the file system can promise it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_state(folder: Path) -> Saved | None:
    """The state that was saved last, None if there is none.

    Raises:
        OSError: it cannot be read.
        SavedFileError: it cannot be used.
    """
    try:
        with (folder / STATE_FILE).open("rb") as file:
            data = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return None
    saved = from_bytes(data)
    try:
        drain(saved.runs.place_all())
    except ValueError as error:
        raise SavedFileError(str(error)) from None
    return saved
