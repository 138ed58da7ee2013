"""The index as JSON, for a dump that another process can decide from.

    {"views": [names], "held": [{"view": name, "endpoint": name,
                                 "runs": [[parent, weight, hashes], …], "lru": [[run, blocks], …]}, …]}

Runs are numbered in the order in which they appear, over all of `held`. A run's `parent` is the number of
the run before it, -1 at the root; `hashes` are 64-bit little-endian in base64. `lru` lists what an endpoint
holds in a view, oldest first: the number of a run with the blocks held from the start of the prompt, or
[-1, tokens] for what has no prefix.

A dump is made in slices, one a list of one endpoint, and the index may change between two of them. Runs
that are cut meanwhile keep their paths, and a path is all that a number stands for.
"""

import base64
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from epp.prefix.index import PrefixIndex
from epp.prefix.residency import Bookmark, Occupancy, Residency
from epp.prefix.runs import Hold, Run

__all__ = ["IndexDump", "dump_index", "load_index"]

_encode = msgspec.json.Encoder().encode

_RunDump = tuple[int, int, "array[int]"]  # parent, weight, hashes


class HeldDump(msgspec.Struct):
    """What one endpoint holds in one view."""

    view: str
    endpoint: str
    runs: list[tuple[int, int, str]]
    lru: list[tuple[int, int]]


class IndexDump(msgspec.Struct):
    """A whole index."""

    views: list[str]
    held: list[HeldDump]


def dump_index(index: PrefixIndex, views: Mapping[int, str], endpoints: Mapping[int, str]) -> Iterator[bytes]:
    """The dump as JSON in slices; `views` are names by number, `endpoints` by slot, others are left out."""
    numbers: dict[Run, int] = {}
    yield b'{"views":%b,"held":[' % _encode(list(views.values()))
    separator = b""
    for number, name in views.items():
        for residency in index.residencies(number):
            if residency.slot in endpoints:
                yield separator + _encode(_held(residency, name, endpoints[residency.slot], numbers))
                separator = b","
    yield b"]}"


def _held(residency: Residency, view: str, endpoint: str, numbers: dict[Run, int]) -> HeldDump:
    held = HeldDump(view, endpoint, [], [])
    for entry in residency.entries():
        if isinstance(entry, Bookmark):
            continue
        if isinstance(entry, Occupancy):
            held.lru.append((-1, entry.tokens))
        else:
            hold = cast("Hold", entry)
            held.lru.append((_number(hold.run, numbers, held.runs), hold.hi))
    return held


def _number(run: Run, numbers: dict[Run, int], runs: list[tuple[int, int, str]]) -> int:
    """The run's number; it and the runs before it are written when they are met for the first time."""
    unknown: list[Run] = []
    above: Run | None = run
    while above is not None and above not in numbers:
        unknown.append(above)
        above = above.parent
    number = -1 if above is None else numbers[above]
    for new in reversed(unknown):
        runs.append((number, new.weight, _as_text(new.hashes)))
        number = numbers[new] = len(numbers)
    return number


def _as_text(hashes: "array[int]") -> str:
    return base64.b64encode(_little_endian(hashes).tobytes()).decode("ascii")


def _as_hashes(text: str) -> "array[int]":
    hashes = array("Q")
    hashes.frombytes(base64.b64decode(text, validate=True))
    return _little_endian(hashes)


def _little_endian(hashes: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        return hashes
    swapped = hashes[:]
    swapped.byteswap()
    return swapped


def load_index(
    index: PrefixIndex, dump: IndexDump, views: Mapping[str, int], slots: Mapping[str, int]
) -> None:
    """Make an empty `index` hold what the dump says, in the same order of age; unknown views are left out.

    Raises:
        ValueError: a number or a hash in it is wrong.
    """
    runs: list[_RunDump] = []
    for held in dump.held:
        runs += [(parent, weight, _as_hashes(text)) for parent, weight, text in held.runs]
        if held.view not in views or held.endpoint not in slots:
            continue
        view, slot = views[held.view], slots[held.endpoint]
        for number, amount in held.lru:
            if number < 0:
                index.occupy(view, slot, amount)
            else:
                _touch_path(index, view, slot, _path(runs, number), amount)


def _path(runs: Sequence[_RunDump], number: int) -> list[_RunDump]:
    """The runs from the start of the prompt to this one.

    Raises:
        ValueError: the number, or one above it, is of no run before this one.
    """
    path: list[_RunDump] = []
    while number >= 0:
        if number >= len(runs) or runs[number][0] >= number:
            raise ValueError(f"run {number} is not in the dump, or stands before its parent")
        path.append(runs[number])
        number = runs[number][0]
    return path[::-1]


def _touch_path(index: PrefixIndex, view: int, slot: int, path: Sequence[_RunDump], blocks: int) -> None:
    """Touch the first `blocks` blocks of a path, run by run, so that each run gets its own weight."""
    chain = array("Q")
    for _, weight, hashes in path:
        chain.extend(hashes)
        index.touch(view, slot, chain[:blocks], weight)
