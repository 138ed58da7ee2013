"""Recorded traffic as a workload: public traces, and this router's own access log.

Formats are told apart by their fields: Mooncake (JSON lines: timestamp in ms, input_length, output_length,
hash_ids of 512 tokens), Qwen-Bailian (the same in seconds, hash_ids of 16 tokens), Weka (hash_ids of 64
tokens), the Azure traces (CSV without prefixes), and epp's access log (the `chain` of a record stands for 512
tokens each, as the router estimated them).
"""

import csv
import datetime as dt
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from epp.simulate.prompts import Segment, identity
from epp.simulate.workload import OpenLoop, SimRequest

__all__ = ["TraceEntry", "TraceOptions", "play", "read_trace"]

_MOONCAKE_TOKENS: Final = 512
_BAILIAN_TOKENS: Final = 16
_WEKA_TOKENS: Final = 64
_ACCESS_LOG_TOKENS: Final = 512
_UNKNOWN: Final = (
    "the trace is of no known format: neither JSON lines (Mooncake, Qwen-Bailian, Weka, epp's access log as "
    "JSON) nor an Azure CSV"
)
_WITHOUT_PREFIXES: Final = (
    "the access log tells no prefixes, so no prompt has anything in common with another: serve with "
    "accessLog.prefix"
)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How a trace is played.

    Attributes:
        speed: 2 plays it in half the time.
        limit: requests at most, 0 for all.
        max_prompt_tokens: longer prompts are left out, 0 for none.
        block_tokens: tokens that one of its hash ids stands for; 0: what the format says.
    """

    speed: float = 1.0
    limit: int = 0
    max_prompt_tokens: int = 126_000
    block_tokens: int = 0

    def __post_init__(self) -> None:
        if self.speed <= 0:
            raise ValueError(f"speed must be positive, got {self.speed:g}")
        for name in ("limit", "max_prompt_tokens", "block_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One recorded request. `blocks` name its prefix at each `block_tokens`; `measured`: exactly there."""

    when_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[Any, ...] = ()
    block_tokens: float = 0
    measured: bool = True


def read_trace(path: Path, options: TraceOptions | None = None) -> OpenLoop:
    """The requests of a file, which may be compressed (`.gz`), in the order of their times.

    Raises:
        ValueError: it has no request, or a line is none; the message names the line.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    entries = list(_entries(text))
    told = play(entries, path.name, options or TraceOptions())
    if not any(entry.blocks or entry.measured for entry in entries):
        told.note = _WITHOUT_PREFIXES
    return told


def play(entries: Iterable[TraceEntry], name: str, options: TraceOptions) -> OpenLoop:
    """Recorded requests as a workload; `name` is for messages.

    Raises:
        ValueError: there is none within the limits.
    """
    most = options.max_prompt_tokens
    in_order = sorted(entries, key=lambda entry: entry.when_s)
    kept = [entry for entry in in_order if not most or entry.prompt_tokens <= most]
    kept = kept[: options.limit] if options.limit else kept
    if not kept:
        which = "within the limits" if in_order else "whose lengths are known"
        raise ValueError(f"{name} has no request {which}")
    start, places = kept[0].when_s, _Places(options.block_tokens)
    return OpenLoop(
        [
            (
                (entry.when_s - start) / options.speed,
                SimRequest(number, places.segments(number, entry), entry.output_tokens),
            )
            for number, entry in enumerate(kept)
        ]
    )


class _Places:
    """Where the blocks of prompts end. One that is only estimated ends for all where it did first."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._ends: dict[Any, int] = {}

    def segments(self, number: int, entry: TraceEntry) -> tuple[Segment, ...]:
        """A segment a recorded block; what no block names belongs to nobody else."""
        size = self._block_tokens or entry.block_tokens
        segments: list[Segment] = []
        end = 0
        for block in entry.blocks:
            reached = round(end + size)
            if not entry.measured:
                reached = self._ends.setdefault(block, reached)
            if end >= entry.prompt_tokens or reached <= end:
                break
            end = min(reached, entry.prompt_tokens)
            segments.append(Segment(_identity(block), end))
        if end < entry.prompt_tokens:
            segments.append(Segment(identity("own", number), entry.prompt_tokens))
        return tuple(segments)


def _identity(block: Any) -> int:
    """Spreads small numbers over 64 bits."""
    if isinstance(block, int):
        value = (block + 1) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        return (value ^ value >> 31) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return identity(block)


def _entries(text: str) -> Iterator[TraceEntry]:
    if text.lstrip().startswith("{"):
        yield from _json_lines(text)
    else:
        yield from _azure(text)


def _json_lines(text: str) -> Iterator[TraceEntry]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            entry = _entry(fields)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} is no request of a known trace: {error}") from None
        if entry is not None:
            yield entry


def _entry(fields: Mapping[str, Any]) -> TraceEntry | None:
    """None: a record that says nothing of lengths, such as an access log line of a refused request."""
    if "hash_ids" in fields:
        bailian = "chat_id" in fields
        weka = "block_size" in fields or "session_id" in fields
        size = int(fields.get("block_size") or 0)
        default = _BAILIAN_TOKENS if bailian else _WEKA_TOKENS if weka else _MOONCAKE_TOKENS
        seconds = float(fields["timestamp"]) / (1.0 if bailian else 1000.0)
        return TraceEntry(
            seconds,
            max(1, int(fields["input_length"])),
            max(1, int(fields["output_length"])),
            tuple(fields["hash_ids"]),
            size or default,
        )
    return _access_log(fields)


def _access_log(fields: Mapping[str, Any]) -> TraceEntry | None:
    prompt, output = fields.get("prompt_tokens"), fields.get("completion_tokens")
    estimated = fields.get("prompt_tokens_estimated")
    prompt = estimated if prompt is None else prompt
    if not prompt or not output:
        return None
    arrival = fields.get("arrival")
    if arrival is None:  # the line tells when the request ended, and how long it took
        arrival = dt.datetime.fromisoformat(str(fields["ts"])).timestamp() - float(fields["ms"]) / 1000
    chain = tuple(fields.get("chain") or ())
    # The router took its own estimate for tokens when it cut the prompt.
    block_tokens = _ACCESS_LOG_TOKENS * int(prompt) / int(estimated or prompt)
    return TraceEntry(float(arrival), int(prompt), int(output), chain, block_tokens, measured=False)


def _azure(text: str) -> Iterator[TraceEntry]:
    rows = csv.DictReader(io.StringIO(text))
    if "TIMESTAMP" not in (rows.fieldnames or ()):
        raise ValueError(_UNKNOWN)
    for number, row in enumerate(rows, 2):
        try:
            moment = row["TIMESTAMP"]
            # More digits than Python's dates take.
            when = dt.datetime.fromisoformat(moment[:26]).replace(tzinfo=dt.UTC)
            prompt, output = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} is no request of an Azure trace: {error}") from None
        yield TraceEntry(when.timestamp(), max(1, prompt), max(1, output))
