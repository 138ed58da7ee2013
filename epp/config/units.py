"""Durations and sizes as people write them."""

import re
from typing import Final

__all__ = ["format_duration", "format_size", "parse_duration", "parse_size"]

_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")
_PLAIN_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")
_BYTES: Final = {
    "": 1, "B": 1,
    "k": 10**3, "kB": 10**3, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9,
    "Ki": 1 << 10, "KiB": 1 << 10, "Mi": 1 << 20, "MiB": 1 << 20, "Gi": 1 << 30, "GiB": 1 << 30,
}  # fmt: skip
_MAX_CHARACTERS: Final = 32


def parse_duration(text: str) -> float:
    """Seconds: `200ms`, `5s`, `2m`, `1m30s`, `1h`, or a plain number of seconds.

    Raises:
        ValueError: it is none of these; the message says what would be.
    """
    if len(text) <= _MAX_CHARACTERS and _PLAIN_SECONDS.fullmatch(text):
        return float(text)
    if len(text) > _MAX_CHARACTERS or not _DURATION.fullmatch(text):
        raise ValueError("must be a duration such as 200ms, 5s, 2m or a plain number of seconds")
    # Divided, not multiplied by 0.001, so that 200ms is 0.2 exactly.
    return sum(float(n) * _MILLISECONDS[unit] for n, unit in _DURATION_PART.findall(text)) / 1000


def parse_size(text: str) -> int:
    """Bytes: `32MiB`, `1GiB`, `500MB`, or a plain number of bytes.

    Raises:
        ValueError: it is none of these; the message says what would be.
    """
    match = _SIZE.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    factor = _BYTES.get(match.group(2)) if match else None
    size = float(match.group(1)) * factor if match and factor else 0.5
    if not size.is_integer():
        raise ValueError("must be a size such as 64KiB, 32MiB, 1GiB or a plain number of bytes")
    return int(size)


def format_duration(seconds: float) -> str:
    """The shortest spelling that `parse_duration` reads back as the same value."""
    if seconds and seconds < 1:
        return f"{seconds * 1000:.12g}ms"
    return f"{seconds:.12g}s"


def format_size(size_bytes: int) -> str:
    """In the largest unit that divides it."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"
