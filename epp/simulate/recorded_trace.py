"""A recording of a router as a workload: its requests, with the prefixes that they really shared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from epp.recording import events as e
from epp.recording.folding import Unfolder
from epp.recording.framing import MAGIC, Entries, RecordingError
from epp.simulate.traces import TraceEntry

__all__ = ["is_recording", "read_recording"]

_SEGMENT_BYTES: Final = 512  # finer parts of prompts are not told from each other


class _Request:
    """What is known of a request so far."""

    __slots__ = ("arrived", "block_bytes", "blocks", "prepared")

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self.prepared: e.Prepared | None = None
        self.block_bytes = 0
        self.blocks: tuple[int, ...] = ()

    def take(self, prepared: e.Prepared, block_bytes: int, chains: list[list[int]]) -> None:
        """It was read; `chains` are those of its finest blocks."""
        step = max(1, _SEGMENT_BYTES // block_bytes)
        self.prepared, self.block_bytes = prepared, block_bytes * step
        self.blocks = tuple(chains[0][step - 1 :: step]) if chains else ()


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recording does.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def read_recording(path: Path) -> tuple[list[TraceEntry], str]:
    """The requests that ended with an answer whose length is known, and what is wrong with the recording.

    Of several prompts in a request the first counts, with the length of all.

    Raises:
        ValueError: it is no recording.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            entries = Entries(stream)
            found = list(_entries(entries))
            return found, "" if entries.complete else f"{path.name} is not whole: {entries.ending}"
    except RecordingError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None


def _entries(entries: Entries) -> Iterator[TraceEntry]:
    unfolder = Unfolder()
    open_requests: dict[int, _Request] = {}
    for event in entries:
        if isinstance(event, e.Opened) and not event.asked:
            open_requests[event.number] = _Request(event.now)
        elif isinstance(event, e.Prepared):
            chains = {size: list(map(unfolder.unfold, folded)) for size, folded in event.chains or ()}
            request = open_requests.get(event.number)
            if request is not None and chains:
                request.take(event, min(chains), chains[min(chains)])
        elif isinstance(event, e.Ended):
            request = open_requests.pop(event.number, None)
            entry = None if request is None else _entry(request, event)
            if entry is not None:
                yield entry


def _entry(request: _Request, ended: e.Ended) -> TraceEntry | None:
    prepared, usage = request.prepared, ended.usage
    if prepared is None or usage is None or not usage.completion_tokens or not prepared.data_bytes:
        return None
    prompt = usage.prompt_tokens or prepared.prompt_tokens
    block_tokens = request.block_bytes * prompt / prepared.data_bytes
    return TraceEntry(
        request.arrived, prompt, usage.completion_tokens, request.blocks, block_tokens, measured=False
    )
