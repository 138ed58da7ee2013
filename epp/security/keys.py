"""Keys of clients: how they are written, and how one that was presented is recognised.

A key is written `KEY`, `sha256:HEX`, `NAME=KEY` or `NAME=sha256:HEX`, where HEX is the SHA-256 of the key's
bytes. Only digests are kept. SHA-256 without salt is right for keys made at random; it is no way to keep
passwords.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

__all__ = ["ClientKey", "KeyRing", "parse_key", "parse_keys"]

# What follows the name must hold more than `=`: otherwise the text is a key whose Base64 ends in padding.
_NAMED: Final = re.compile(r"([A-Za-z0-9._-]{1,64})=(?!=*$)(.*)", re.DOTALL)
_HASHED: Final = "sha256:"
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")


@dataclass(frozen=True, slots=True, repr=False)
class ClientKey:
    """One key. `name` is for logs, None when it has none; several keys may share one."""

    digest: bytes
    name: str | None = None

    def __repr__(self) -> str:
        """Stars for the key; from the digest of a weak one it could be guessed."""
        return f"{self.name}=***" if self.name else "***"


def parse_key(text: str) -> ClientKey:
    """One key as it is written.

    Raises:
        ValueError: says what is wrong; the text is not repeated.
    """
    named = _NAMED.fullmatch(text)
    name, secret = (named[1], named[2]) if named else (None, text)
    if secret.startswith(_HASHED):
        digest = secret.removeprefix(_HASHED)
        if not _DIGEST.fullmatch(digest):
            raise ValueError("sha256: must be followed by 64 hexadecimal digits")
        return ClientKey(bytes.fromhex(digest), name)
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("a key must be printable ASCII without blanks, and not empty")
    return ClientKey(sha256(secret.encode()).digest(), name)


def parse_keys(text: str) -> tuple[ClientKey, ...]:
    """The keys of a file: one a line; empty lines and those that begin with `#` are skipped.

    Raises:
        ValueError: a line holds no key, with its number, or there is none at all.
    """
    keys: list[ClientKey] = []
    for number, line in enumerate(text.splitlines(), start=1):
        written = line.strip()
        if not written or written.startswith("#"):
            continue
        try:
            keys.append(parse_key(written))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if not keys:
        raise ValueError("there is no key in it")
    return tuple(keys)


class KeyRing:
    """The keys that are valid."""

    def __init__(self, keys: Iterable[ClientKey]) -> None:
        self._keys = tuple(keys)

    def find(self, presented: bytes) -> ClientKey | None:
        """The key that was presented; takes the same time whichever it is, and whether it is one."""
        digest = sha256(presented).digest()
        found: ClientKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found
