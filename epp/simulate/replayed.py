"""A replay as a command has it: the file, what came of it, and how that is shown."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from epp import __version__
from epp.config import EffectiveConfig
from epp.director.record import RequestRecord
from epp.errors import ConfigError, ConfigProblem
from epp.recording.framing import Entries, RecordingError
from epp.simulate.replay import Difference, Replay, ReplayError, recorded_configs

__all__ = ["Replayed", "replay_file", "replayed_as_json", "replayed_as_text"]

_PROGRESS_EVENTS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a replay.

    Attributes:
        recording: the file.
        requests, decisions, different, differences: see `Replay`.
        duration_s: from the first event to the last.
        config, config_hash: what decided.
        scores_compared: False for another configuration, of whose decisions the endpoint alone is compared.
        complete: the recording ends as the router said; `ending` says how it ends.
        notes: what differs from the recorded router, beside decisions.
    """

    recording: str
    requests: int
    decisions: int
    different: int
    differences: tuple[Difference, ...]
    duration_s: float
    config: str
    config_hash: str
    scores_compared: bool
    complete: bool
    ending: str
    notes: tuple[str, ...]


def replay_file(
    path: Path,
    config: EffectiveConfig | None = None,
    observer: Callable[[RequestRecord], None] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Replayed:
    """Replay a recording, as far as it can be read; `config` in place of the one on record.

    `progress` is told how many of the file's bytes are done.

    Raises:
        ConfigError: it cannot be read at all, or its configuration cannot be used.
    """
    try:
        with path.open("rb") as stream:
            entries, size = Entries(stream), path.stat().st_size
            return _replay(path, entries, config, observer, lambda: progress(entries.place, size))
    except OSError as error:
        raise _fault(f"{path}: {error.strerror or error}", "name a readable file") from None
    except RecordingError as error:
        remedy = "name a file that epp serve --record has written"
        raise _fault(f"{path} cannot be replayed: {error}", remedy) from None


def _fault(said: str, remedy: str) -> ConfigError:
    return ConfigError([ConfigProblem("--replay", said, remedy)], "simulation")


def _replay(
    path: Path,
    entries: Entries,
    config: EffectiveConfig | None,
    observer: Callable[[RequestRecord], None] | None,
    progress: Callable[[], None],
) -> Replayed:
    replay = Replay(entries.header, config, observer)
    if config is not None:
        _check_hashed(config, recorded_configs(entries.header))
    complete, ending = True, ""
    try:
        for number, event in enumerate(entries):
            replay.apply(event)
            if not number % _PROGRESS_EVENTS:
                progress()
    except ReplayError as error:
        complete, ending = False, f"what is on record does not fit together ({error})"
    return Replayed(
        recording=str(path),
        requests=replay.requests,
        decisions=replay.decisions,
        different=replay.different,
        differences=tuple(replay.differences),
        duration_s=(replay.now or 0.0) - (replay.started or 0.0),
        config=replay.config.source,
        config_hash=replay.config.hash,
        scores_compared=replay.scores_too,
        complete=complete and entries.complete,
        ending=ending or entries.ending,
        notes=tuple(_notes(entries, replay, given=config is not None)),
    )


def _check_hashed(config: EffectiveConfig, recorded: Iterable[EffectiveConfig]) -> None:
    """What `config` reads of prompts must be on record.

    Raises:
        ConfigError: it reads other blocks, or more of them.
    """
    hashed = {view.block_bytes: view.max_blocks for one in recorded for view in one.views}
    for view in config.views:
        most = hashed.get(view.block_bytes, 0)
        if most is None or (view.max_blocks is not None and view.max_blocks <= most):
            continue
        known = ", ".join(f"{size} bytes, at most {cap or 'all'}" for size, cap in hashed.items())
        said = f"{config.source} reads blocks of {view.block_bytes} bytes of a prompt that are not on record"
        raise _fault(said, f"on record are blocks of: {known}")


def _notes(entries: Entries, replay: Replay, *, given: bool) -> list[str]:
    header, notes = entries.header, []
    if header.version != __version__:
        notes.append(f"recorded by epp {header.version}; this is {__version__}")
    if header.config.hash != replay.config.hash:
        which = f"{header.config.source} ({header.config.hash})"
        why = "was given in its place" if given else "is what this version makes of it"
        notes.append(
            f"the configuration differs: {which} was recorded, {replay.config.source} "
            f"({replay.config.hash}) {why}; answers are those to the recorded picks"
        )
    if replay.reloads:
        what = "left out" if given else "done again"
        notes.append(f"reloads of the configuration, {what}: {replay.reloads}")
    return notes


def replayed_as_text(told: Replayed) -> str:
    """For a terminal."""
    equal = told.decisions - told.different
    span = f"{told.requests:,} requests in {told.duration_s:,.1f} s"
    compared = "endpoint and scores" if told.scores_compared else "endpoint"
    alike = f"equal in {compared}: {equal:,}; different: {told.different:,}"
    lines = [
        f"{told.recording}: {span}, {told.config} ({told.config_hash})",
        f"decisions: {told.decisions:,}; {alike}",
        f"ends: {told.ending}" if told.complete else f"INCOMPLETE: {told.ending}; all before was replayed",
    ]
    lines += [f"note: {note}" for note in told.notes]
    lines += [
        f"different: request {d.request_id} at {d.at_s:.3f} s: {d.what} {d.recorded} on record, "
        f"{d.replayed} here"
        for d in told.differences
    ]
    return "\n".join(lines) + "\n"


def replayed_as_json(told: Replayed) -> str:
    """For programs."""
    shown: dict[str, Any] = asdict(told)
    return json.dumps(shown, indent=2) + "\n"
