"""Finds the few samples that are needed in a Prometheus text page, without reading the rest.

A page of an engine has 700 to 900 lines, of which routing needs about 25. One compiled expression finds these
lines, and only they are parsed in full. Format: the Prometheus text exposition format 0.0.4; exemplars and
timestamps are tolerated.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["PageError", "Sample", "SampleFinder"]

_LABEL = rb'[ \t]*[a-zA-Z_]\w*[ \t]*=[ \t]*"(?:[^"\\]|\\.)*"[ \t]*'
_NUMBER = rb"[-+0-9.eE]+|[-+]?(?:[Ii]nf|[Nn]a[Nn])"
_TAIL = rb"(?:[ \t]+[-+.0-9eE]+)?[ \t]*(?:#.*)?"  # a timestamp, an exemplar
_REST = re.compile(rb"(?:\{((?:%b,)*(?:%b)?)[ \t]*\})?[ \t]*(%b)%b" % (_LABEL, _LABEL, _NUMBER, _TAIL))
_LINE = re.compile(rb"#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(?=[{ \t])%b" % _REST.pattern)
_PAIR = re.compile(r'([a-zA-Z_]\w*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_KNOWN_BLOCKS: Final = 4096
_LINE_FEED: Final = 0x0A


class PageError(ValueError):
    """The page is not, or not wholly, in the exposition format."""


class Sample(NamedTuple):
    """One line: its labels and its value, which may be NaN or infinite."""

    labels: Mapping[str, str]
    value: float


class SampleFinder:
    """Finds the samples of a fixed set of names.

    It remembers label blocks, since they are the same from scrape to scrape and from metric to metric.
    """

    __slots__ = ("_known", "_wanted")

    def __init__(self, names: Iterable[str]) -> None:
        self._wanted = re.compile(b"\n(%b)([{ \t][^\n]*)" % _alternatives(names))
        self._known: dict[bytes, Mapping[str, str]] = {}

    def find(self, page: bytes) -> dict[str, list[Sample]]:
        """Samples by name, in the order of the page; names that it does not have are absent.

        Raises:
            PageError: the page is not text metrics (HTML), ends inside a line, or a wanted line is wrong.
        """
        if b"\r" in page:
            page = page.replace(b"\r\n", b"\n")
        _check_ends(page)
        found: dict[str, list[Sample]] = {}
        for name, rest in self._wanted.findall(b"\n" + page):
            found.setdefault(name.decode(), []).append(self._parse(name, rest))
        return found

    def _parse(self, name: bytes, rest: bytes) -> Sample:
        block, _, number = rest.rpartition(b"} ")
        labels = self._known.get(block)
        if labels is not None:
            try:
                return Sample(labels, float(number))
            except ValueError:
                pass  # a timestamp follows, or it is wrong: the full grammar decides
        return self._parse_in_full(name, rest, block)

    def _parse_in_full(self, name: bytes, rest: bytes, block: bytes) -> Sample:
        match = _REST.fullmatch(rest)
        if match is None:
            raise PageError(f"bad sample of {name.decode()}: {_shown(rest)}")
        try:
            value = float(match[2])
        except ValueError:
            raise PageError(f"bad value of {name.decode()}: {_shown(match[2])}") from None
        labels = _labels(match[1]) if match[1] else {}
        if match[1] is not None and block == b"{" + match[1]:
            if len(self._known) >= _KNOWN_BLOCKS:
                self._known.clear()
            self._known[block] = labels
        return Sample(labels, value)


def _alternatives(names: Iterable[str]) -> bytes:
    """One expression for all names, in which a common beginning up to `:` or `_` stands once.

    Each alternative is tried at each of 800 lines: without grouping this costs three times as much.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        length = 1 + min((i for i in (name.find(":"), name.find("_")) if i >= 0), default=-1)
        groups.setdefault(name[:length], []).append(re.escape(name[length:]))
    parts = [f"{re.escape(head)}(?:{'|'.join(tails)})" for head, tails in groups.items()]
    return "|".join(parts).encode()


def _check_ends(page: bytes) -> None:
    """The first and the last line tell HTML, compressed and cut pages from whole ones."""
    begin, end = 0, len(page)
    while begin < end and page[begin] == _LINE_FEED:
        begin += 1
    while begin < end and page[end - 1] == _LINE_FEED:
        end -= 1
    first_end = page.find(b"\n", begin, end)
    first = (begin, end if first_end < 0 else first_end)
    last = (max(begin, page.rfind(b"\n", begin, end) + 1), end)
    for start, stop in (first, last) if begin < end else ():
        if not _LINE.fullmatch(page, start, stop):
            raise PageError(f"not a line of metrics: {_shown(page[start:stop])}")


def _labels(block: bytes) -> dict[str, str]:
    text = block.decode("utf-8", "replace")
    pairs = _PAIR.findall(text)
    if "\\" not in text:
        return dict(pairs)
    return {key: _ESCAPE.sub(_unescaped, value) for key, value in pairs}


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _shown(text: bytes) -> str:
    """The beginning of what is wrong, fit for a log."""
    return ascii(text[:60].decode("utf-8", "replace"))
