"""The id of a stored response, from the first bytes of the answer that made it."""

import re
from typing import Final

import msgspec

__all__ = ["StoredResponseReader"]

_LIMIT_BYTES: Final = 16_384
_MAX_ID_CHARACTERS: Final = 256

# A string, with its closing quote if that has come, or what structures a document.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:(")|\\?\Z)|[{}\[\]:,]', re.DOTALL)
_IN_DOCUMENT: Final = [b'"id"']
_IN_EVENT: Final = [b'"response"', b'"id"']


class StoredResponseReader:
    """Reads `id` of a JSON answer, or `response.id` of an event stream's first event.

    vLLM writes them first, so that the first piece of the answer tells. What does not tell within 16 KiB, or
    names itself with more than 256 characters, stays unknown.
    """

    __slots__ = ("_head", "_open")

    def __init__(self) -> None:
        self._head = b""
        self._open = True

    def feed(self, chunk: bytes) -> str | None:
        """The id, once, with the piece of the body that completes it; never raises."""
        if not self._open:
            return None
        self._head += chunk
        found = _id_in(self._head)
        if found is not None or len(self._head) > _LIMIT_BYTES:
            self._open = False
            self._head = b""
        return found


def _id_in(head: bytes) -> str | None:
    if head.lstrip().startswith(b"{"):
        return _string_at(_IN_DOCUMENT, head, 0)
    start = head.find(b"data:")
    return None if start < 0 else _string_at(_IN_EVENT, head, start)


def _string_at(wanted: list[bytes], text: bytes, start: int) -> str | None:
    """The string at a path of keys in the object that begins after `start`; its end may be missing."""
    path: list[bytes] = []  # the key that was read last in each open object
    before = b""
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if token in (b"{", b"["):
            path.append(b"")
        elif token in (b"}", b"]"):
            path = path[:-1]
            if not path:
                return None
        elif token == b":" and path:
            path[-1] = before
        elif match.group(1) is None and token.startswith(b'"'):
            return None
        elif before == b":" and path == wanted:
            return _read_id(token)
        before = token
    return None


def _read_id(token: bytes) -> str | None:
    try:
        found = msgspec.json.decode(token, type=str)
    except ValueError:
        return None
    return found if 0 < len(found) <= _MAX_ID_CHARACTERS else None
