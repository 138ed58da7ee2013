"""Which headers a plugin may add to an answer."""

import re
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["fit_headers", "is_reserved"]

_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 section 5.1, in lower case
_VALUE: Final = re.compile(r"[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*")  # section 5.5, without obs-text
# They frame the answer, belong to one hop, or are the router's own.
_RESERVED: Final = frozenset((
    "connection", "content-encoding", "content-length", "content-type", "date", "keep-alive",
    "proxy-authenticate", "proxy-connection", "server", "te", "trailer", "transfer-encoding", "upgrade",
    "x-request-id",
))  # fmt: skip
_RESERVED_PREFIXES: Final = ("x-epp-", "x-gateway-", "x-llm-d-")


def is_reserved(name: str) -> bool:
    """Whether a header of this name, in lower case, is not for plugins to set."""
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)


def fit_headers(
    headers: Iterable[tuple[str, str]], dropped: Callable[[str], None]
) -> tuple[tuple[str, str], ...]:
    """The headers that may be sent; `dropped` is told the names of the others, of which nothing is sent."""
    fit = []
    for name, value in headers:
        if _NAME.fullmatch(name) and _VALUE.fullmatch(value) and not is_reserved(name):
            fit.append((name, value))
        else:
            dropped(name)
    return tuple(fit)
