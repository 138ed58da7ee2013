"""Recorded traffic as a workload: public traces, and this router's own access log.

Formats are told apart by their fields: Mooncake (JSON lines: timestamp in ms, input_length, output_length,
hash_ids of 512 tokens), Qwen-Bailian (the same in seconds, hash_ids of 16 tokens), Weka (hash_ids of 64
tokens), the Azure traces (CSV without prefixes), and epp's access log (the `chain` of a record stands for 512
tokens each).
"""

import csv
import datetime as dt
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from epp.simulate.prompts import Segment, identity
from epp.simulate.workload import OpenLoop, SimRequest

__all__ = ["TraceOptions", "read_trace"]

_MOONCAKE_TOKENS: Final = 512
_BAILIAN_TOKENS: Final = 16
_WEKA_TOKENS: Final = 64
_ACCESS_LOG_TOKENS: Final = 512


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
class _Entry:
    """One recorded request. `blocks` name its prefix at each `block_tokens`."""

    when_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[Any, ...] = ()
    block_tokens: int = 0


def read_trace(path: Path, options: TraceOptions | None = None) -> OpenLoop:
    """The requests of a file, which may be compressed (`.gz`), in the order of their times.

    Raises:
        ValueError: it has no request, or a line is none; the message names the line.
        OSError: it cannot be read.
    """
    options = options or TraceOptions()
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    entries = sorted(_entries(text), key=lambda entry: entry.when_s)
    most = options.max_prompt_tokens
    kept = [entry for entry in entries if not most or entry.prompt_tokens <= most]
    kept = kept[: options.limit] if options.limit else kept
    if not kept:
        raise ValueError(f"{path.name} has no request within the limits")
    start = kept[0].when_s
    return OpenLoop(
        [
            ((entry.when_s - start) / options.speed, _request(number, entry, options))
            for number, entry in enumerate(kept)
        ]
    )


def _request(number: int, entry: _Entry, options: TraceOptions) -> SimRequest:
    return SimRequest(number, _segments(number, entry, options.block_tokens), entry.output_tokens)


def _segments(number: int, entry: _Entry, block_tokens: int) -> tuple[Segment, ...]:
    """A segment a recorded block; what no block names belongs to nobody else."""
    size = block_tokens or entry.block_tokens
    segments = []
    end = 0
    for block in entry.blocks:
        if end >= entry.prompt_tokens:
            break
        end = min(end + size, entry.prompt_tokens)
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


def _entries(text: str) -> Iterator[_Entry]:
    if text.lstrip().startswith("{"):
        yield from _json_lines(text)
    else:
        yield from _azure(text)


def _json_lines(text: str) -> Iterator[_Entry]:
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


def _entry(fields: Mapping[str, Any]) -> _Entry | None:
    """None: a record that says nothing of lengths, such as an access log line of a refused request."""
    if "hash_ids" in fields:
        bailian = "chat_id" in fields
        weka = "block_size" in fields or "session_id" in fields
        size = int(fields.get("block_size") or 0)
        default = _BAILIAN_TOKENS if bailian else _WEKA_TOKENS if weka else _MOONCAKE_TOKENS
        seconds = float(fields["timestamp"]) / (1.0 if bailian else 1000.0)
        return _Entry(
            seconds,
            max(1, int(fields["input_length"])),
            max(1, int(fields["output_length"])),
            tuple(fields["hash_ids"]),
            size or default,
        )
    return _access_log(fields)


def _access_log(fields: Mapping[str, Any]) -> _Entry | None:
    prompt, output = fields.get("prompt_tokens"), fields.get("completion_tokens")
    if prompt is None:
        prompt = fields.get("prompt_tokens_estimated")
    if not prompt or not output:
        return None
    arrival = fields.get("arrival")
    if arrival is None:  # the line tells when the request ended, and how long it took
        arrival = dt.datetime.fromisoformat(str(fields["ts"])).timestamp() - float(fields["ms"]) / 1000
    chain = tuple(fields.get("chain") or ())
    return _Entry(float(arrival), int(prompt), int(output), chain, _ACCESS_LOG_TOKENS)


def _azure(text: str) -> Iterator[_Entry]:
    rows = csv.DictReader(io.StringIO(text))
    for number, row in enumerate(rows, 2):
        try:
            moment = row["TIMESTAMP"]
            # More digits than Python's dates take.
            when = dt.datetime.fromisoformat(moment[:26]).replace(tzinfo=dt.UTC)
            prompt, output = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} is no request of an Azure trace: {error}") from None
        yield _Entry(when.timestamp(), max(1, prompt), max(1, output))
