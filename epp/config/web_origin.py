"""Where a page in a browser comes from."""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["ANY_ORIGIN", "WebOrigin", "parse_origin"]

ANY_ORIGIN: Final = "*"
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class WebOrigin:
    """An origin as browsers send it, or `*`."""

    text: str

    def __str__(self) -> str:
        """As it is written."""
        return self.text


def parse_origin(text: str) -> WebOrigin:
    """Scheme, host and port, if it is not the scheme's.

    Raises:
        ValueError: it is none.
    """
    lower = text.lower()
    if lower != ANY_ORIGIN and not _ORIGIN.fullmatch(lower):
        raise ValueError(f"is no origin: {text:.100}; write https://HOST, https://HOST:PORT or *")
    return WebOrigin(lower)
