"""Another model's name in an answer, put in as its bytes pass."""

import re
from typing import Final, Protocol

import msgspec

__all__ = ["AnswerNames", "answer_names"]

_STRING: Final = rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?:(")|(\\)?\Z)'  # closed, or open; maybe with half an escape
_TOKEN: Final = re.compile(rb'"%b|[{}\[\]:,]' % _STRING, re.DOTALL)
_REST: Final = re.compile(_STRING, re.DOTALL)
_QUOTE: Final = ord('"')
_BRACE: Final = ord("{")
_COLON: Final = ord(":")
_LONGEST_KEY: Final = 64
_LINE_ENDS: Final = (b"\n", b"\r\n", b"\r")
_DATA: Final = b"data:"
_KEY: Final = b'"model"'
_ESCAPE: Final = b"\\u"  # a key may be written so
_AROUND: Final = frozenset({"response", "message"})  # in some events the model stands one level below
_NO_KEY: Final = ""
_IN_ARRAY: Final = "[]"

_text = msgspec.json.Decoder(str).decode


class AnswerNames(Protocol):
    """Puts the name in.

    Attributes:
        settled: nothing that is still to come of this document will be changed.
    """

    settled: bool

    def feed(self, chunk: bytes) -> bytes:
        """The next piece of the body, cut anywhere, as the client gets it: nothing waits for the next."""
        ...


def answer_names(content_type: str | None, content_encoding: str | None, model: str) -> AnswerNames | None:
    """Who makes `model` the value of `model` in an answer with such a head; None: nobody can."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if (content_encoding or "identity").strip().lower() != "identity":
        return None
    if media_type == "text/event-stream":
        return _EventNames(msgspec.json.encode(model))
    return _DocumentNames(msgspec.json.encode(model)) if media_type == "application/json" else None


class _DocumentNames:
    """In a JSON document: the string at `model`, or at `model` in the objects `response` or `message`.

    Once one is found the rest passes as it is. A value that is no string does too.

    Attributes:
        value_end: where in its piece the value ended that was replaced; -1 until one was.
    """

    __slots__ = ("_before", "_escaping", "_in_string", "_key", "_path", "_replacing", "_value", "settled",
                 "value_end")  # fmt: skip

    def __init__(self, value: bytes) -> None:
        self._value = value
        self.value_end = -1
        self.reset()

    def reset(self) -> None:
        """Begin another document."""
        self.settled = False
        self._path: list[str] = []  # the key that was read last in each object, or that this is an array
        self._before = 0  # the last byte that structures
        self._in_string = False
        self._escaping = False  # the piece ended behind a backslash
        self._key: bytes | None = None  # of the string that is open, if it is a key
        self._replacing = False  # the string that is open is not passed on

    def feed(self, chunk: bytes) -> bytes:
        """As of `AnswerNames`."""
        if self.settled or not chunk:
            return chunk
        out: list[bytes] = []
        at = passed = 0
        if self._in_string:
            replacing = self._replacing
            at = self._go_on(chunk)
            passed = at if replacing else 0
        if not self._in_string:
            passed = self._read(chunk, at, passed, out)
        out.append(chunk[passed:])
        return b"".join(out)

    def _go_on(self, chunk: bytes) -> int:
        """Find the end of the string that an earlier piece began; where it ends."""
        rest = _REST.match(chunk, 1 if self._escaping else 0)
        end = rest.end() if rest else 0  # the pattern matches anything
        if self._key is not None and len(self._key) <= _LONGEST_KEY:
            self._key += chunk[:end]
        self._on_string(rest)
        return end

    def _on_string(self, match: re.Match[bytes] | None) -> None:
        """A string, or a part of one, was read."""
        if match is None or match.group(1) is None:
            self._in_string = True
            self._escaping = match is not None and match.group(2) is not None
            return
        self._in_string = self._escaping = False
        if self._key is not None:
            self._path[-1] = _name(self._key)
            self._key = None
        if self._replacing:
            self._replacing = False
            self.settled = True
            self.value_end = match.end()

    def _read(self, chunk: bytes, at: int, passed: int, out: list[bytes]) -> int:
        """Read from `at` on, outside strings; up to where the chunk is passed on, or left out."""
        for match in _TOKEN.finditer(chunk, at):
            if self.settled:
                break
            first = chunk[match.start()]
            if first != _QUOTE:
                self._on_structure(first)
                continue
            if self._is_model():
                out += [chunk[passed : match.start()], self._value]
                passed = match.end()
                self._replacing = True
            elif self._before in b"{," and self._path and self._path[-1] != _IN_ARRAY:
                self._key = match.group()
            self._before = first
            self._on_string(match)
        return passed

    def _on_structure(self, byte: int) -> None:
        self._before = byte
        if byte in b"{[":
            self._path.append(_NO_KEY if byte == _BRACE else _IN_ARRAY)
        elif byte in b"}]":
            del self._path[-1:]
            self.settled = not self._path

    def _is_model(self) -> bool:
        """The string that begins is the value of a model's name."""
        path = self._path
        if self._before != _COLON or path[-1:] != ["model"]:
            return False
        return len(path) == 1 or (len(path) == 2 and path[0] in _AROUND)


def _name(key: bytes) -> str:
    """A key's text; any other than those that are looked for is as good as none."""
    if len(key) > _LONGEST_KEY:
        return _NO_KEY
    try:
        name = _text(key)
    except msgspec.DecodeError:
        return _NO_KEY
    return _NO_KEY if name == _IN_ARRAY else name


class _EventNames:
    """In a stream of server-sent events: in the document that each event's data are.

    A piece that is one event and begins as an earlier one did up to its model, as nearly every piece of a
    stream of tokens does, costs a few comparisons; so do events without a model.
    """

    __slots__ = (
        "_after_cr", "_beginning", "_begun", "_between", "_document", "_in_data", "_renamed", "settled",
    )  # fmt: skip

    def __init__(self, value: bytes) -> None:
        self.settled = False
        self._document = _DocumentNames(value)
        self._between = True  # events
        self._begun: bytes | None = b""  # of a line, as long as it is open whether it holds data
        self._in_data = False
        self._after_cr = False  # an LF that follows belongs to the same line end
        self._beginning = _KEY  # of an event, up to its model's end; none begins like this
        self._renamed = b""

    def feed(self, chunk: bytes) -> bytes:
        """As of `AnswerNames`."""
        if not self._between or not chunk.endswith(b"\n\n") or self._after_cr:
            return b"".join(map(self._line, chunk.splitlines(keepends=True)))
        if _KEY not in chunk and _ESCAPE not in chunk:
            return chunk
        alone = chunk.find(b"\n\n") == len(chunk) - 2 and b"\r" not in chunk
        if alone and chunk.startswith(self._beginning):
            return self._renamed + chunk[len(self._beginning) :]
        self._document.value_end = -1
        renamed = b"".join(map(self._line, chunk.splitlines(keepends=True)))
        if alone:
            self._learn(chunk, renamed)
        return renamed

    def _learn(self, chunk: bytes, renamed: bytes) -> None:
        """Remember how an event begins, if it is one line."""
        end = self._document.value_end
        if chunk.startswith(_DATA) and chunk.count(b"\n") == 2 and end >= 0:
            self._beginning = chunk[: len(_DATA) + end]
            self._renamed = renamed[: len(self._beginning) + len(renamed) - len(chunk)]

    def _line(self, piece: bytes) -> bytes:
        """A line or a part of one, with its line end if that has come."""
        if self._after_cr and piece == b"\n":
            self._after_cr = False
            return piece
        self._after_cr = piece.endswith(b"\r")
        if self._begun is not None:
            given = self._begin_line(self._begun, piece)
        else:
            given = self._document.feed(piece) if self._in_data else piece
        if piece.endswith(_LINE_ENDS):
            self._begun, self._in_data = b"", False
        return given

    def _begin_line(self, begun: bytes, piece: bytes) -> bytes:
        if not begun and piece in _LINE_ENDS:
            self._document.reset()
            self._between = True
            return piece
        self._between = False
        line = begun + piece
        if line.startswith(_DATA):
            self._begun, self._in_data = None, True
            field = len(_DATA) - len(begun)
            return piece[:field] + self._document.feed(piece[field:])
        self._begun = line if _DATA.startswith(line) else None
        return piece
