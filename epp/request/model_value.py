"""Another value for `model` in a body, with every other byte as it was."""

import re
from collections.abc import Generator
from typing import Final

import msgspec

from epp.errors import BadRequestError
from epp.request.canonical import LARGE_BYTES
from epp.request.types import Body

__all__ = ["with_model"]

_BOM: Final = b"\xef\xbb\xbf"
_STEP: Final = 2000  # keys or tokens between two pauses: about a millisecond
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_KEY: Final = re.compile(rb"[\s,]*+(%b)\s*+:\s*+" % _STRING, re.DOTALL)
_END: Final = re.compile(rb"\s*+}\s*+\Z")
_TOKEN: Final = re.compile(rb"%b|[{}\[\]]" % _STRING, re.DOTALL)
_COLON: Final = re.compile(rb"\s*+:\s*+")
_VALUE: Final = re.compile(rb"%b|[^,}\s]++" % _STRING, re.DOTALL)
_MODEL: Final = b'"model"'

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode

_Places = list[tuple[int, int]]  # where values begin and end


def with_model(body: Body, model: str) -> Generator[None, None, bytes]:
    """`body`, a valid JSON object, with `model` as the value of `model`; yields between steps if large.

    A key that stands there more than once gets the value each time, since parsers differ in which one counts.
    One that is not there comes first.

    Raises:
        BadRequestError: a body of more than 1 MB has the same key twice; reading it would take 10 ms a MB.
    """
    start = len(_BOM) if body.startswith(_BOM) else 0
    places = yield from _by_members(body, start)
    if places is None:
        if len(body) > LARGE_BYTES:
            raise BadRequestError("a key stands twice in the body, of which the model cannot be rewritten")
        places = yield from _by_tokens(body, start)
    value = msgspec.json.encode(model)
    if not places:
        return _with_member(body, body.index(b"{", start) + 1, b'"model":' + value)
    parts: list[Body] = []
    done = 0
    for begin, end in places:
        parts += [body[done:begin], value]
        done = end
    return b"".join([*parts, body[done:]])


def _with_member(body: Body, at: int, member: bytes) -> bytes:
    comma = b"" if _END.match(body, at) else b","
    return b"".join([body[:at], member, comma, body[at:]])


def _by_members(body: Body, start: int) -> Generator[None, None, _Places | None]:
    """The values of `model`, found by the lengths of all before them, which msgspec measures.

    None where a key repeats, whose first value nobody has measured, or where a lone surrogate stops msgspec.
    """
    try:
        members = _members(body[start:] if start else body)
    except msgspec.DecodeError:
        return None
    if len(body) > LARGE_BYTES:
        yield
    places: _Places = []
    at = body.index(b"{", start) + 1
    for number, raw in enumerate(members.values(), 1):
        if number % _STEP == 0:
            yield
        key, value = _KEY.match(body, at), bytes(raw)
        if key is None or not body.startswith(value, key.end()):
            return None
        at = key.end() + len(value)
        if _is_model(key.group(1)):
            places.append((key.end(), at))
    return places if _END.match(body, at) else None


def _by_tokens(body: Body, start: int) -> Generator[None, None, _Places]:
    """The same, by looking at every string and bracket."""
    places: _Places = []
    depth = 0
    for number, token in enumerate(_TOKEN.finditer(body, start), 1):
        if number % _STEP == 0:
            yield
        first = body[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
        elif depth == 1 and (colon := _COLON.match(body, token.end())) and _is_model(token.group()):
            value = _VALUE.match(body, colon.end())
            places.append((colon.end(), value.end() if value else colon.end()))
    return places


def _is_model(key: bytes) -> bool:
    return key == _MODEL or (b"\\" in key and len(key) < 64 and _decodes_to_model(key))


def _decodes_to_model(key: bytes) -> bool:
    try:
        return _text(key) == "model"
    except msgspec.DecodeError:  # a lone surrogate
        return False
