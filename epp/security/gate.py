"""Whether a request may use a route that needs a client's key."""

from collections.abc import Iterable

import msgspec

from epp.errors import UnauthorizedError
from epp.security.keys import KeyRing

__all__ = ["Admission", "KeyGate"]

Headers = Iterable[tuple[bytes, bytes]]


class Admission(msgspec.Struct, frozen=True):
    """`error` is None for a request that may go on; `key_name` then names its key, if it has a name."""

    key_name: str | None = None
    error: UnauthorizedError | None = None


_OPEN = Admission()


class KeyGate:
    """Asks for a key in `Authorization: Bearer KEY` or, as Anthropic's clients send it, in `x-api-key: KEY`.

    Attributes:
        keys: those that are valid; replaced when they change.
        refused: how many requests were refused, by cause.
    """

    def __init__(self, keys: KeyRing) -> None:
        self.keys = keys
        self.refused = {"missing": 0, "wrong": 0}

    def admit(self, method: str, headers: Headers) -> Admission:
        """Judge a request; header names are lower-case."""
        bearer, api_key, preflight = _read(headers)
        presented = [key for key in (bearer, api_key) if key]
        if not presented:
            if method == "OPTIONS" and preflight:
                return _OPEN
            return self._refuse("missing", "an API key is needed: send Authorization: Bearer KEY")
        for key in presented:
            found = self.keys.find(key)
            if found is not None:
                return Admission(found.name)
        return self._refuse("wrong", "the API key is not valid")

    def _refuse(self, cause: str, message: str) -> Admission:
        self.refused[cause] += 1
        return Admission(error=UnauthorizedError(message))


def _read(headers: Headers) -> tuple[bytes | None, bytes | None, bool]:
    """The first bearer token, the first x-api-key, and whether this can be a preflight of CORS.

    Browsers ask before a request from a page of another origin, without its headers and without a body. An
    answer tells nothing, but a body would be held for whoever sends one.
    """
    bearer = api_key = None
    asks, empty = False, True
    for name, value in headers:
        if name == b"authorization" and bearer is None:
            bearer = _bearer_token(value)
        elif name == b"x-api-key" and api_key is None:
            api_key = value.strip()
        elif name == b"access-control-request-method":
            asks = True
        elif name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            empty = False
    return bearer, api_key, asks and empty


def _bearer_token(value: bytes) -> bytes:
    """What follows the scheme, b"" without a token or with another scheme."""
    scheme, _, token = value.strip().partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
