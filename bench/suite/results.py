"""The file of results: its shape, reading, and merging of parts that were measured anew."""

import json
from pathlib import Path

from .bars import Bar, Context, bars_of
from .samples import Samples

__all__ = ["SCHEMA", "ResultsError", "assemble", "check", "load", "merge", "save"]

SCHEMA = 1
BAR_KEYS = {"name", "measure", "unit", "bar", "value", "peer_values", "met"}
TOP_KEYS = {"schema", "measured", "machine", "versions", "settings", "peers", "skipped", "bars", "samples"}


class ResultsError(Exception):
    """The file is not one of ours; the text says why."""


def context_of(results: dict) -> Context:
    """What the bars are computed from."""
    newer = tuple(results["versions"]["epp python"]) >= (3, 12)
    return Context(Samples(results["samples"]), results["peers"], newer)


def assemble(facts: dict, samples: Samples) -> dict:
    """A file's content: facts about the run, samples, and the bars that follow from them."""
    results = {"schema": SCHEMA, **facts, "samples": samples.table}
    results["bars"] = [bar.as_dict() for bar in bars(results)]
    return results


def bars(results: dict) -> list[Bar]:
    return bars_of(context_of(results))


def merge(older: dict | None, newer: dict) -> dict:
    """The newer results, with the older samples of what was not measured again.

    Older samples of another machine, or of epp on another CPython, are dropped: they cannot be compared.
    """
    if older is None or _circumstances(older) != _circumstances(newer):
        return newer
    if older["samples"].keys() <= newer["samples"].keys():
        return newer
    samples = Samples(older["samples"]).replaced_by(Samples(newer["samples"]))
    facts = {key: newer[key] for key in TOP_KEYS - {"schema", "samples", "bars"}}
    facts["peers"] = {**older["peers"], **newer["peers"]}
    peers = {**older["versions"]["peers"], **newer["versions"]["peers"]}
    facts["versions"] = {**newer["versions"], "peers": peers}
    facts["skipped"] = {name: why for name, why in newer["skipped"].items() if name not in peers}
    facts["settings"] = {
        **newer["settings"],
        "measured in parts": sorted({*_measured(older), *_measured(newer)}),
    }
    return assemble(facts, samples)


def _circumstances(results: dict) -> tuple[dict, dict]:
    """What must be the same for figures to stand side by side."""
    versions = {name: version for name, version in results["versions"].items() if name != "peers"}
    return results["machine"], versions


def _measured(results: dict) -> list[str]:
    return results["settings"].get("measured in parts", [results["measured"]])


def check(results: object) -> dict:
    """The results if they have the shape of this version; else ResultsError."""
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise ResultsError(f"not results of schema {SCHEMA}")
    missing = TOP_KEYS - results.keys()
    if missing:
        raise ResultsError(f"without {', '.join(sorted(missing))}")
    for bar in results["bars"]:
        if not bar.keys() >= BAR_KEYS:
            raise ResultsError(f"a bar without {', '.join(sorted(BAR_KEYS - bar.keys()))}")
        if not isinstance(bar["met"], bool):
            raise ResultsError(f"bar {bar['name']}: met is not true or false")
    return results


def load(path: Path) -> dict | None:
    """The results in a file, None if there is none. Raises ResultsError."""
    try:
        return check(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, ResultsError) as error:
        raise ResultsError(f"{path.name}: {error}; delete it to begin anew") from None


def save(path: Path, results: dict) -> None:
    """Write whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(_short(check(results)), ensure_ascii=False, indent=1) + "\n")
    draft.replace(path)


def _short(value: object) -> object:
    """Numbers to six significant digits, so that the file can be read and compared."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return value
