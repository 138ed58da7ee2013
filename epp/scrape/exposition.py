"""Finds the few samples that are needed in a Prometheus text page, without reading the rest.

A page of an engine has 700 to 900 lines, of which routing needs about 25. One compiled expression finds these
lines, and only they are parsed in full. Format: the Prometheus text exposition format 0.0.4; exemplars and
timestamps are tolerated.
"""

import os.path
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["PageError", "Sample", "SampleFinder"]

# Runs of plain characters are taken at once and not given back: else a line of 5 MB takes 2 s.
_LABEL = rb'[ \t]*[a-zA-Z_]\w*[ \t]*=[ \t]*"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t]*'
_NUMBER = rb"[-+0-9.eE]+|[-+]?(?:[Ii]nf|[Nn]a[Nn])"
_TAIL = rb"(?:[ \t]+[-+.0-9eE]+)?[ \t]*(?:#.*)?"  # a timestamp, an exemplar
_REST = re.compile(rb"(?:\{((?:%b,)*(?:%b)?)[ \t]*\})?[ \t]*(%b)%b" % (_LABEL, _LABEL, _NUMBER, _TAIL))
_LINE = re.compile(rb"#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(?=[{ \t])%b" % _REST.pattern)
_PAIR = re.compile(r'([a-zA-Z_]\w*)[ \t]*=[ \t]*"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_ESCAPE = re.compile(r"\\(.)")
_KNOWN_BLOCKS: Final = 4096
_MOST_SAMPLES: Final = 10_000  # an engine of 64 ranks has a tenth of them
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

    __slots__ = ("_known", "_names", "_wanted")

    def __init__(self, names: Iterable[str]) -> None:
        names = sorted(set(names))
        self._wanted = re.compile(b"\n(%b)([{ \t][^\n]*)" % _alternatives(names).encode())
        self._names = {name.encode(): name for name in names}
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
        known = self._known
        wanted = self._wanted.findall(b"\n" + page)
        if len(wanted) > _MOST_SAMPLES:
            raise PageError(f"more than {_MOST_SAMPLES} samples of metrics that are read")
        for name, rest in wanted:
            block, _, number = rest.rpartition(b"} ")
            labels = known.get(block)
            try:
                sample = Sample(labels, float(number)) if labels is not None else None
            except ValueError:
                sample = None  # a timestamp follows, or it is wrong: the full grammar decides
            found.setdefault(self._names[name], []).append(sample or self._parse_in_full(name, rest, block))
        return found

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


def _alternatives(names: Sequence[str]) -> str:
    """One expression for all names, in which every common beginning stands once.

    Each alternative is tried at each of 800 lines: without this it costs three times as much.
    """
    common = os.path.commonprefix(names)  # noqa: RUF071  characters are what is meant
    by_next: dict[str, list[str]] = {}
    for name in names:
        by_next.setdefault(name[len(common) : len(common) + 1], []).append(name[len(common) :])
    longer = [_alternatives(tails) for first, tails in by_next.items() if first]
    rest = f"(?:{'|'.join(longer)})" if longer else ""
    return re.escape(common) + (rest + "?" if rest and "" in by_next else rest)


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
    for start, stop in dict.fromkeys((first, last)) if begin < end else ():
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
